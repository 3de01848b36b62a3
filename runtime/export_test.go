package runtime

// Remembered counts what a worker keeps of contents in memory.
func (w *Worker) Remembered() (n int) {
	w.blobs.Range(func(any, any) bool { n++; return true })
	return n
}
