/* The types of the code that kjit runs as a guest. */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef unsigned long addr_t; /* as wide as a pointer */
