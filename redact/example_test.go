package redact_test

import (
	"fmt"

	"github.com/daybookhq/daybook/redact"
)

func ExampleNew() {
	r := redact.New(redact.Config{TenantKey: []byte("kept by the tenant")})
	if err := r.Register("db", "correct horse battery"); err != nil {
		fmt.Println(err)
	}
	fmt.Println(r.String(`dial "postgres://app:correct%20horse%20battery@db": refused`))
	// Output: dial "postgres://app:[REDACTED:db:030b4e62]@db": refused
}

func ExampleRedactor_JSON() {
	r := redact.New(redact.Config{TenantKey: []byte("kept by the tenant")})
	out, err := r.JSON(map[string]any{"user": "ann", "password": "p", "card": "secret://card"})
	fmt.Println(string(out.Bytes()), err)
	fmt.Println(redact.HasMarker(out.Bytes()))
	// Output:
	// {"card":"secret://card","password":"[REDACTED:password:3e04c09d]","user":"ann"} <nil>
	// true
}
