"""The command line: `seerax train maze4`, `seerax evaluate runs/maze4-brpo-seed0`, and so on.

Internal: use the command line, or the functions of the face.
"""

from __future__ import annotations

import os
import sys
from dataclasses import fields

from seerax.cli.arguments import COMMANDS, parse
from seerax.errors import UserError, one_line
from seerax.system import signals

OPTION_OF = {"settings": "set"}  # where an option is not named like its field


def main() -> None:
    """Runs a command.

    A mistake is printed as one sentence, with exit code 2; a signal ends with 128 plus its number.
    """
    arguments = sys.argv[1:]
    try:
        with signals.stop_at_once():
            run(arguments)
    except UserError as error:
        print(f"seerax: {one_line(error)}{options(error, arguments)}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        os._exit(0)
    except signals.Stopped as stopped:
        signals.exit_at_once(stopped.exit_code)


def run(arguments: list[str]) -> None:
    """Parses and carries out one command."""
    command = parse(arguments)
    from seerax.cli import commands  # JAX takes a second to import

    commands.run(command, arguments)


def options(error: UserError, arguments: list[str]) -> str:
    """Names those options of the command that set the parameters in question."""
    command = COMMANDS.get(arguments[0]) if arguments else None
    known = {field.name for field in fields(command)} if command else set()
    names = [OPTION_OF.get(name, name) for name in error.parameters if name in known]
    flags = [f"--{name.replace('_', '-')}" for name in names]
    missing = [flag for flag in flags if flag not in str(error)]
    return f" ({', '.join(missing)})" if missing else ""
