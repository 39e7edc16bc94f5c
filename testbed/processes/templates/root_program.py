"""The program of a root template."""

import sys

from testbed.common.finders import own_packages

if __name__ == "__main__":
    own_packages.confine(stays=sys.argv[2] == "stays")
    from testbed.processes.templates import root_template

    root_template.main(int(sys.argv[1]))
