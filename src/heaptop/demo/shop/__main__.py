"""Makes ``python -m heaptop.demo.shop`` work; the program is :mod:`.server`."""

from .server import main

if __name__ == "__main__":
    main()
