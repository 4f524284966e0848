package config

import "strings"

// nearest returns the candidate that name was most likely meant to be, or ""
// when none is near.
func nearest(name string, candidates []string) string {
	best, bestDistance := "", len(name)/3+2
	if len(name) > 64 {
		return ""
	}
	for _, c := range candidates {
		if d := distance(strings.ToLower(name), strings.ToLower(c)); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance is the number of bytes to insert, delete or replace to get from a
// to b (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// elsewhere returns the path of a setting that is called name, which was
// looked for in the wrong section, or "".
func elsewhere(name string) string {
	for _, s := range settings {
		if s.path == name || strings.HasSuffix(s.path, "."+name) {
			return s.path
		}
	}
	return ""
}
