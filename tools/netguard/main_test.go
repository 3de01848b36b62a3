package netguard_test

import (
	"os"
	"testing"
)

// All tests run with proxies in the environment, which must not be taken.
func TestMain(m *testing.M) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		if err := os.Setenv(name, "http://proxy.example.org:3128"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
