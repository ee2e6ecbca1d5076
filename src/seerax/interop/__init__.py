"""seerax in other people's loops: our problems in Gymnasium, and our policies on a robot.

Import `seerax.gym` and `seerax.Pilot`; what else the files hold is internal.
"""
