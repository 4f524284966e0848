//go:build linux && !race

package system

const raceDetector = false
