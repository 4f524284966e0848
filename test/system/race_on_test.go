//go:build linux && race

package system

// raceDetector says whether the program under test is built with the race
// detector: as these tests are.
const raceDetector = true
