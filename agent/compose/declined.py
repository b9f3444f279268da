"""Why nothing was composed."""


class Declined(Exception):
    """What the composer cannot do, in a clause that ends a sentence."""


class ProductsAlone(Declined):
    """Nothing is left to compose where products and convolutions stay torch's."""

    def __init__(self) -> None:
        super().__init__("it is matrix products and convolutions alone, which stay torch's")
