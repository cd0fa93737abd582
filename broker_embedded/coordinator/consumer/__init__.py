"""Groups of the newer protocol (KIP-848): members say what they read, the broker shares it out."""
