package policy

import (
	"regexp"

	"github.com/expr-lang/expr/ast"
)

func (k *compiler) unary(n *ast.UnaryNode) expression {
	e, path := k.node(n.Node), k.pathOf(n.Node)
	switch n.Operator {
	case "not", "!":
		return func(s *state) (any, error) {
			v, err := truth(e(s))
			if b, ok := v.(bool); ok {
				return !b, err
			}
			return v, err
		}
	case "-", "+":
		minus := n.Operator == "-"
		return func(s *state) (any, error) {
			v, err := e(s)
			if err != nil || v == unknown {
				return v, err
			}
			if minus {
				return arithmetic("-", int64(0), v, "", path)
			}
			return arithmetic("+", int64(0), v, "", path)
		}
	}
	return k.failf(n, "the operator %s is not there", n.Operator)
}

func (k *compiler) binary(n *ast.BinaryNode) expression {
	switch n.Operator {
	case "and", "&&", "or", "||":
		return k.logical(n)
	case "matches":
		return k.matches(n)
	case "..":
		return k.failf(n, "a range is only there behind in: args.n in 1..10")
	case "**", "^":
		return k.failf(n, "powers are not there; write the number")
	case "in":
		if r, ok := n.Right.(*ast.BinaryNode); ok && r.Operator == ".." {
			return k.inRange(n.Left, r)
		}
	}
	k.names(n)
	op := n.Operator
	l, r := k.node(n.Left), k.node(n.Right)
	lp, rp := k.pathOf(n.Left), k.pathOf(n.Right)
	if op == "??" {
		return func(s *state) (any, error) {
			v, err := l(s)
			if err != nil || v != nil && v != absent {
				return v, err
			}
			return r(s)
		}
	}
	return func(s *state) (any, error) {
		a, err := l(s)
		if err != nil {
			return nil, err
		}
		b, err := r(s)
		if err != nil {
			return nil, err
		}
		if a == unknown || b == unknown {
			return unknown, nil
		}
		switch op {
		case "==":
			return s.equal(a, b)
		case "!=":
			eq, err := s.equal(a, b)
			return !eq, err
		case "<", "<=", ">", ">=":
			return compare(s, op, a, b, lp, rp)
		case "in":
			return s.in(a, b, rp)
		case "contains", "startsWith", "endsWith":
			return s.text(op, a, b, lp, rp)
		case "+":
			if x, ok := a.(string); ok {
				return s.concat(x, b, rp)
			}
		}
		return arithmetic(op, a, b, lp, rp)
	}
}

func (k *compiler) logical(n *ast.BinaryNode) expression {
	l, r := k.node(n.Left), k.node(n.Right)
	decides := n.Operator == "or" || n.Operator == "||" // the value of one side that decides
	return func(s *state) (any, error) {
		a, err := truth(l(s))
		if err != nil || a == decides {
			return a, err
		}
		b, err := truth(r(s))
		if err != nil || b == decides || a != unknown {
			return b, err
		}
		return unknown, nil
	}
}

func (k *compiler) inRange(left ast.Node, r *ast.BinaryNode) expression {
	x, from, to := k.node(left), k.node(r.Left), k.node(r.Right)
	xp, fp, tp := k.pathOf(left), k.pathOf(r.Left), k.pathOf(r.Right)
	return func(s *state) (any, error) {
		v, err := x(s)
		if err != nil {
			return nil, err
		}
		a, err := from(s)
		if err != nil {
			return nil, err
		}
		b, err := to(s)
		if err != nil {
			return nil, err
		}
		if v == unknown || a == unknown || b == unknown {
			return unknown, nil
		}
		low, err := compare(s, ">=", v, a, xp, fp)
		if err != nil {
			return nil, err
		}
		high, err := compare(s, "<=", v, b, xp, tp)
		if err != nil {
			return nil, err
		}
		return low && high && whole(v), nil
	}
}

func (k *compiler) matches(n *ast.BinaryNode) expression {
	p, ok := n.Right.(*ast.StringNode)
	if !ok {
		return k.failf(n, "the pattern behind matches has to be a text in quotes")
	}
	re, err := regexp.Compile(p.Value)
	if err != nil {
		return k.failf(n, "the pattern behind matches: %v", err)
	}
	l, path := k.node(n.Left), k.pathOf(n.Left)
	return func(s *state) (any, error) {
		v, err := l(s)
		if err != nil || v == unknown {
			return v, err
		}
		if v == nil && s.row {
			return false, nil
		}
		t, ok := v.(string)
		if !ok {
			return nil, wanted("a text", v, path)
		}
		if err := s.step(len(t)); err != nil {
			return nil, err
		}
		return re.MatchString(t), nil
	}
}
