package artifact

import (
	"bytes"
	"math/rand"
	"net/netip"
	"strings"
	"testing"
)

func TestInterfaceAddress(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ config, want string }{
		"plain":                      {wireGuardConfig, "10.99.0.7"},
		"no prefix length":           {"[Interface]\nAddress=10.99.0.7\n", "10.99.0.7"},
		"no last line end":           {"[Interface]\nAddress=10.99.0.7/32", "10.99.0.7"},
		"CRLF":                       {strings.ReplaceAll(wireGuardConfig, "\n", "\r\n"), "10.99.0.7"},
		"IPv6":                       {"[Interface]\nAddress = fd00:99::7/64\n", "fd00:99::7"},
		"IPv6 first":                 {"[Interface]\nAddress = fd00:99::7/64, 10.99.0.7/24\n", "fd00:99::7"},
		"several, commas":            {"[Interface]\nAddress = 10.99.0.7/24,10.98.0.7/24\n", "10.99.0.7"},
		"several, spaces":            {"[Interface]\nAddress = 10.99.0.7/24 10.98.0.7/24\n", "10.99.0.7"},
		"several lines":              {"[Interface]\nAddress = 10.99.0.7/24\nAddress = 10.98.0.7/24\n", "10.99.0.7"},
		"any case":                   {"[iNTERFACE]\nADDRESS = 10.99.0.7/24\n", "10.99.0.7"},
		"tabs and no spaces":         {"\t[Interface]\n\tAddress\t=\t10.99.0.7/24\t\n", "10.99.0.7"},
		"comments":                   {"# Address = 10.1.1.1\n[Interface] # mine\n#Address = 10.1.1.2\nAddress = 10.99.0.7/24 # first\n", "10.99.0.7"},
		"peer before":                {"[Peer]\nAddress = 10.1.1.1\n[Interface]\nAddress = 10.99.0.7\n", "10.99.0.7"},
		"second interface section":   {"[Interface]\nMTU = 1400\n[Peer]\n[Interface]\nAddress = 10.99.0.7\n", "10.99.0.7"},
		"empty address, then one":    {"[Interface]\nAddress =\nAddress = 10.99.0.7\n", "10.99.0.7"},
		"link-local is passed over":  {"[Interface]\nAddress = fe80::7/64, 10.99.0.7/24\n", "10.99.0.7"},
		"IPv4 in IPv6":               {"[Interface]\nAddress = ::ffff:10.99.0.7\n", "10.99.0.7"},
		"binary before the section":  {"\x00\xff\xfe\n[Interface]\nAddress = 10.99.0.7\n", "10.99.0.7"},
		"lines without equals signs": {"[Interface]\nAddress\nSaveConfig\nAddress = 10.99.0.7\n", "10.99.0.7"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := interfaceAddress([]byte(tt.config))
			if err != nil || got.String() != tt.want {
				t.Errorf("got %v, %v, want %s", got, err, tt.want)
			}
		})
	}
}

func TestInterfaceAddressRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ config, want string }{
		"empty":                {"", "no Address"},
		"no section":           {"Address = 10.99.0.7\n", "no Address"},
		"no address":           {"[Interface]\nPrivateKey = " + privateKey + "\n", "no Address"},
		"only in the peer":     {"[Interface]\n[Peer]\nAddress = 10.99.0.7\n", "no Address"},
		"only a comment":       {"[Interface]\n# Address = 10.99.0.7\n", "no Address"},
		"only unusable ones":   {"[Interface]\nAddress = 127.0.0.1, ::1, 0.0.0.0, fe80::1, 224.0.0.1\n", "no Address"},
		"a key in its place":   {"[Interface]\nAddress = " + privateKey + "\n", "line 2: an Address is no IP"},
		"a name":               {"[Interface]\nAddress = node.example.org\n", "line 2"},
		"bad prefix length":    {"[Interface]\n\nAddress = 10.99.0.7/33\n", "line 3"},
		"two slashes":          {"[Interface]\nAddress = 10.99.0.7/24/24\n", "line 2"},
		"zone":                 {"[Interface]\nAddress = fd00::1%wg0\n", "line 2"},
		"a flag behind it":     {"[Interface]\nAddress = 10.99.0.7;--anonymous-auth=true\n", "line 2"},
		"section name is long": {"[Interface]]\nAddress = 10.99.0.7\n", "no Address"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := interfaceAddress([]byte(tt.config))
			wantError(t, err, tt.want)
			if strings.Contains(err.Error(), privateKey) {
				t.Errorf("error quotes the private key: %v", err)
			}
		})
	}
}

// A Secret can hold 1 MiB. Whatever it is, it is read once.
func TestInterfaceAddressInNoise(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	noise := make([]byte, size)
	rand.New(rand.NewSource(1)).Read(noise)
	tests := map[string][]byte{
		"noise":           noise,
		"one line":        bytes.Repeat([]byte("a"), size),
		"only line ends":  bytes.Repeat([]byte("\n"), size),
		"only brackets":   bytes.Repeat([]byte("["), size),
		"empty addresses": append([]byte("[Interface]\nAddress="), bytes.Repeat([]byte(","), size)...),
	}
	for name, config := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if addr, err := interfaceAddress(config); err == nil {
				t.Errorf("got %v", addr)
			}
			config = append(config[:size:size], "\n[Interface]\nAddress = 10.99.0.7\n"...)
			if addr, err := interfaceAddress(config); err != nil || addr.String() != "10.99.0.7" {
				t.Errorf("behind the noise: got %v, %v", addr, err)
			}
		})
	}
}

func FuzzInterfaceAddress(f *testing.F) {
	f.Add([]byte(wireGuardConfig))
	f.Add([]byte("[Interface]\r\nAddress = fd00::1/64,10.0.0.1 # c\r\n"))
	f.Add([]byte("[Peer]\nAddress=::\n[Interface]\nAddress = ,, fe80::1%x"))
	f.Fuzz(func(t *testing.T, config []byte) {
		addr, err := interfaceAddress(config)
		if err != nil {
			if addr.IsValid() {
				t.Errorf("address %v beside error %v", addr, err)
			}
			if len(err.Error()) > 200 {
				t.Errorf("long error: %v", err)
			}
			return
		}
		again, err := netip.ParseAddr(addr.String())
		if err != nil || again != addr || addr.Zone() != "" || !usableNodeIP(addr) {
			t.Errorf("%v is no node-ip (%v)", addr, err)
		}
	})
}
