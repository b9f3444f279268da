// Functions that device code calls and that have no PTX body: vprintf and __assertfail. Part of kw/ptx.h.
//
// The functions get the addresses of the variables that hold their parameters and results.
#pragma once

#include <stdio.h>
#include <string.h>

// Not instrumented, because the kernel does not make the accesses within these functions.
#define KW_PTX_LIBRARY static inline __attribute__((unused, no_sanitize("thread")))

template <class T> KW_PTX_LIBRARY T parameter(const char* from) {
    T value;
    __builtin_memcpy(&value, from, sizeof value);
    return value;
}

struct PrintArguments {
    const char* next;
    template <class T> __attribute__((no_sanitize("thread"))) T take() {
        const uintptr_t aligned = (reinterpret_cast<uintptr_t>(next) + sizeof(T) - 1) / sizeof(T) * sizeof(T);
        next = reinterpret_cast<const char*>(aligned) + sizeof(T);
        return parameter<T>(reinterpret_cast<const char*>(aligned));
    }
};

// Prints one conversion, from `%` to its letter; `*` takes its number from the arguments.
KW_PTX_LIBRARY void print_conversion(const char* start, const char* end, PrintArguments& arguments) {
    char spec[64];
    size_t length = 0;
    bool wide = false;
    for (const char* c = start; c < end && length < sizeof spec - 16; c++) {
        if (*c == '*') {
            length += static_cast<size_t>(snprintf(spec + length, 12, "%d", arguments.take<int>()));
        } else if (*c == 'l' || *c == 'z' || *c == 'j' || *c == 't') {
            wide = true;
        } else {
            spec[length++] = *c;
        }
    }
    const char letter = end[-1];
    spec[length] = '\0';
    if (strchr("diuxXoc", letter) != nullptr && wide && letter != 'c') {
        memcpy(spec + length - 1, "ll", 2);
        spec[length + 1] = letter;
        spec[length + 2] = '\0';
        printf(spec, arguments.take<long long>());
    } else if (strchr("diuxXoc", letter) != nullptr) {
        printf(spec, arguments.take<int>());
    } else if (strchr("fFeEgGaA", letter) != nullptr) {
        printf(spec, arguments.take<double>());
    } else if (letter == 's') {
        printf(spec, arguments.take<const char*>());
    } else if (letter == 'p') {
        printf(spec, arguments.take<void*>());
    }
}

// vprintf, whose arguments follow each other in memory, each aligned to its size.
KW_PTX_LIBRARY void print(char* result, const char* format_parameter, const char* arguments_parameter) {
    const char* format = parameter<const char*>(format_parameter);
    PrintArguments arguments{parameter<const char*>(arguments_parameter)};
    int conversions = 0;
    flockfile(stdout);
    for (const char* c = format; *c != '\0';) {
        if (*c != '%') {
            putchar_unlocked(*c++);
        } else if (c[1] == '%') {
            putchar_unlocked('%');
            c += 2;
        } else {
            const char* letter = c + 1;
            while (*letter != '\0' && strchr("diuxXocfFeEgGaAspn", *letter) == nullptr) letter++;
            if (*letter == '\0') break;
            print_conversion(c, letter + 1, arguments);
            conversions++;
            c = letter + 1;
        }
    }
    funlockfile(stdout);
    __builtin_memcpy(result, &conversions, sizeof conversions);
}

[[noreturn]] KW_PTX_LIBRARY void assert_fail(const char* message, const char* file, const char* line, const char* function,
                                            const char*) {
    kw_assert_fail(parameter<const char*>(message), parameter<const char*>(file), parameter<uint32_t>(line),
                   parameter<const char*>(function));
}
