package telemetry

import (
	"fmt"
	"strings"
)

type protocol string

const (
	protocolHTTP protocol = "http/protobuf"
	protocolGRPC protocol = "grpc"
)

// settings are what the environment asks for; an empty protocol is off.
type settings struct {
	traces, metrics, logs protocol
	content               bool
	profile               profile
}

func (s settings) any() bool { return s.traces != "" || s.metrics != "" || s.logs != "" }

// Environment variables of ours; the others are OpenTelemetry's.
const (
	// EnvProfile names viewers whose own keys are added to spans: openinference,
	// langfuse, with commas.
	EnvProfile = "DAYBOOK_OTEL_PROFILE"
	// EnvContent puts what models and tools said into spans, redacted. It is the
	// variable that OpenTelemetry's own instrumentations read.
	EnvContent = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
)

func readSettings(env func(string) string) (s settings, err error) {
	switch v := strings.ToLower(env("OTEL_SDK_DISABLED")); v {
	case "true":
		return settings{}, nil
	case "", "false":
	default:
		return s, fmt.Errorf("%w: OTEL_SDK_DISABLED=%q: want true or false", ErrSettings, v)
	}
	for _, sig := range []struct {
		name string
		to   *protocol
	}{{"TRACES", &s.traces}, {"METRICS", &s.metrics}, {"LOGS", &s.logs}} {
		if *sig.to, err = readSignal(env, sig.name); err != nil {
			return settings{}, err
		}
	}
	switch v := strings.ToLower(env(EnvContent)); v {
	case "", "false", "no_content":
	case "true", "span_only", "span_and_event":
		s.content = true
	default:
		return settings{}, fmt.Errorf("%w: %s=%q: want true or false", ErrSettings, EnvContent, v)
	}
	s.profile, err = readProfile(env(EnvProfile))
	return s, err
}

// readSignal says whether and how a signal is sent: when its exporter or an
// endpoint is named.
func readSignal(env func(string) string, name string) (protocol, error) {
	exporter := "OTEL_" + name + "_EXPORTER"
	switch v := env(exporter); v {
	case "none":
		return "", nil
	case "otlp":
	case "":
		if env("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && env("OTEL_EXPORTER_OTLP_"+name+"_ENDPOINT") == "" {
			return "", nil
		}
	default:
		return "", fmt.Errorf("%w: %s=%q: want otlp or none", ErrSettings, exporter, v)
	}
	variable := "OTEL_EXPORTER_OTLP_" + name + "_PROTOCOL"
	v := env(variable)
	if v == "" {
		variable = "OTEL_EXPORTER_OTLP_PROTOCOL"
		v = env(variable)
	}
	switch p := protocol(v); p {
	case protocolHTTP, protocolGRPC:
		return p, nil
	case "":
		return protocolHTTP, nil
	}
	return "", fmt.Errorf("%w: %s=%q: want %s or %s", ErrSettings, variable, v, protocolHTTP, protocolGRPC)
}
