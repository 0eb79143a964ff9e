"""A made-up package of somebody who ships attention kernels."""
