// Package deaths has real processes die before every platform: at each named fail point that a platform can bring them
// to, while somebody waits for something that then comes about once all the same. It holds tests only.
package deaths
