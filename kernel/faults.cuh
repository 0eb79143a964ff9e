// Seeded faults: FAULT = 0 is the kernel; every other number is one deliberate mistake, compiled in.
#pragma once

