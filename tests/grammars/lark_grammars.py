"""Grammars on which the Lark front-end is compared with Lark: name -> (text, Lark's options, some texts to begin with)."""

from __future__ import annotations

from typing import Any

LALR: dict[str, Any] = {"parser": "lalr"}
EARLEY: dict[str, Any] = {"parser": "earley", "lexer": "basic"}

GRAMMARS: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "arithmetic": (
        r"""
        ?start: sum
        ?sum: product | sum "+" product -> add | sum "-" product -> sub
        ?product: atom | product "*" atom | product "/" atom
        ?atom: NUMBER -> number | "-" atom -> neg | NAME | "(" sum ")"
        %import common.CNAME -> NAME
        %import common.NUMBER
        %import common.WS_INLINE
        %ignore WS_INLINE
        """,
        LALR,
        ["1+2*(x_1-3.5e-2)", "-x", "1..2", "1e", "2x", "", "((1)"],
    ),
    "csv": (
        r"""
        start: header _NL row+
        header: "#" " "? (WORD _SEPARATOR?)+
        row: (_anything _SEPARATOR?)+ _NL
        _anything: INT | WORD | NON_SEPARATOR_STRING | FLOAT | SIGNED_FLOAT
        NON_SEPARATOR_STRING: /[a-zA-z.;\\\/]+/
        _SEPARATOR: /[ ]+/ | "\t" | ","
        %import common.NEWLINE -> _NL
        %import common.WORD
        %import common.INT
        %import common.FLOAT
        %import common.SIGNED_FLOAT
        """,
        LALR,
        ["# a,b\n1,2\n", "#a b\nx;y\t-1.5\n\n", "# a\n", "#a\n1\n2.5 x/y\n"],
    ),
    "json": (
        r"""
        ?start: value
        ?value: object | array | string | SIGNED_NUMBER -> number | "true" -> true | "false" -> false | "null" -> null
        array: "[" [value ("," value)*] "]"
        object: "{" [pair ("," pair)*] "}"
        pair: string ":" value
        string: ESCAPED_STRING
        %import common.ESCAPED_STRING
        %import common.SIGNED_NUMBER
        %import common.WS
        %ignore WS
        """,
        LALR,
        ['{"a": [1, -2.5, true], "b\\"": null}', '["\\\\", ""]', '["\\"]', "[1,]", '"a"b"', "tru"],
    ),
    "sql": (
        r"""
        start: select ";"?
        select: "select"i columns "from"i NAME where? order?
        columns: "*" | column ("," column)*
        column: expr ("as"i NAME)?
        where: "where"i condition
        ?condition: condition "or"i conjunction | conjunction
        ?conjunction: conjunction "and"i test | test
        test: expr OP expr | "not"i test | "(" condition ")"
        order: "order"i "by"i NAME ("asc"i | "desc"i)?
        expr: NAME | INT | STRING
        OP: "=" | "<" | ">" | "<=" | ">=" | "<>"
        STRING: "'" /[^']*/ "'"
        NAME: /[a-z_][a-z0-9_]*/i
        %import common.INT
        %import common.WS
        %import common.SQL_COMMENT
        %ignore WS
        %ignore SQL_COMMENT
        """,
        LALR,
        ["SELECT a, b AS c FROM t WHERE a <= 1 and not (b = 'x') ORDER BY a desc;", "select*from t", "select from from from", "selecta"],
    ),
    "lists": (
        r"""
        start: item
        item: "(" items ")" | "a"
        items: | item items
        """,
        LALR,
        ["a", "()", "(a(a)())", "(a", ")"],
    ),
    "recursion": (
        r"""
        start: left right middle?
        left: | left "l" | left "L" middle
        right: "r" right | "R"
        middle: "(" middle ")" | "m"
        """,
        LALR,
        ["R", "llrrR", "lL(m)rR((m))", "rr"],
    ),
    "mutual": (
        r"""
        start: a
        a: b "x" | "p"
        b: c "y" | "q"
        c: a "z" | "r"
        """,
        LALR,
        ["p", "qx", "ryx", "pzyx", "ryxzyx", "x"],
    ),
    "if_else": (
        r"""
        start: stmt+
        stmt: "if" "(" NAME ")" stmt ("else" stmt)? | NAME "=" NAME ";" | "{" stmt* "}"
        NAME: /[a-z]+/
        %ignore /[ \n]+/
        """,
        LALR,
        ["if (a) if (b) x = y; else y = x;", "else = a;", "if(a){}", "iff = else;", "x=elsey;"],
    ),
    "keywords": (
        r"""
        start: (decl | use)+
        decl: "let" NAME "=" value ";"
        use: NAME "(" [value ("," value)*] ")" ";" | "return" value? ";"
        value: NAME | INT | "not" value | "nil"
        NAME: /[^\W\d]\w*/
        INT: /0|[1-9][0-9]*/
        %ignore /\s+/
        """,
        LALR,
        ["let letter=nota;", "let let = 1;", "return returned;", "nil(nils, not nil);", "f(01);", "letx=1;", "é(ü);"],
    ),
    "comments": (
        r"""
        start: (NAME | STRING | "/")*
        NAME: /\w+/
        STRING: /'.*?'/ | /\"\"\".*?\"\"\"/s
        %import common (C_COMMENT, CPP_COMMENT, WS)
        %ignore C_COMMENT
        %ignore CPP_COMMENT
        %ignore WS
        """,
        LALR,
        ["a /* b */ c", "/* a */ b */", "a // b\nc", "a / / b", "a /*", "'it''s'", '"""a\n"b""" c', "/**/", "/*/"],
    ),
    "templates": (
        r"""
        start: list{NAME, ";"} | pair{list{NUM, ","}, NAME}
        list{x, s}: "[" (x (s x)*)? "]"
        pair{a, b}: "<" a ":" b ">"
        NAME: /[a-z]+/
        NUM: /[0-9]+/
        """,
        LALR,
        ["[a;b]", "[]", "<[1,22]:x>", "<[a]:x>", "[a,b]"],
    ),
    "priorities": (
        r"""
        start: (kw | name | num | any)+
        kw: KW
        name: NAME
        num: HEX | DEC
        any: OTHER
        KW.2: "do" | "done"
        NAME: /[a-z]+/
        HEX.3: /0x[0-9a-f]+/
        DEC: /[0-9]+/
        OTHER.-1: /[?!]/
        %ignore " "
        """,
        LALR,
        ["do done", "dot", "donee", "0x1fg", "0x", "?!a", "doo", "xdo", "#", "A-", "é*"],
    ),
    "shadows": (
        r"""
        start: line+
        line: "set" NAME "=" FLAG? WORD ";" | CALL NAME ";"
        CALL.5: "go"
        FLAG.2: /-[a-z]/
        WORD: /[-a-z]+/
        NAME: /[a-z]+/
        %ignore " "
        """,
        LALR,
        ["set goal=-x;", "set a=-xx;", "set a=-x yy;", "goal;", "go goal;", "gogo;", "set go=a;", "set a=go;"],
    ),
    "insensitive": (
        r"""
        start: ("begin"i NAME "end"i)+
        NAME: /[a-z]+/
        %ignore " "
        """,
        LALR,
        ["BEGIN a End", "begin begin end", "Begin BEGIN end", "bEgin x eNd begin y end"],
    ),
    "ranges": (
        r"""
        start: ("a".."f" ~ 2..4 "-")* WORD ~ 3 [tail]
        tail: "!" ~ 0..60 "?"
        WORD: "0".."9" ~ 2
        """,
        LALR,
        ["ab-112233", "abcd-ef-001122!!?", "a-112233", "112233?", "1122", "112233!!!!"],
    ),
    "extended": (
        r"""
        start: item ("," item)*
        item: A
        A: "a"
        %extend item: B | item "+"
        %override A: "aa"
        B: "b" | C
        C: "c" ["d"]
        """,
        LALR,
        ["aa,b", "a", "c,cd+,aa++", "b,,c"],
    ),
    "ambiguous": (
        r"""
        start: e
        e: e e | e "+" e | "x" | "(" e? ")" | opt opt
        opt: "y"?
        """,
        EARLEY,
        ["", "xx+x", "yy", "()(x)", "yxy+", "+x"],
    ),
    "empties": (
        r"""
        start: a b c d
        a: | "a" a
        b: a? c
        c: | c "c"
        d: (a b)? "d"*
        """,
        EARLEY,
        ["", "aacc", "dd", "acacdd", "cda"],
    ),
    "properties": (
        r"""
        start: (NAME | OTHER | MARK)+
        NAME: /\p{Lu}[\p{Ll}\P{^Nd}_]*/
        OTHER: /[^\p{L}\p{N}\s\p{P}\]]/
        MARK: "!" /\P{Greek}/
        %ignore /[ ]/
        """,
        {"parser": "lalr", "regex": True},
        ["Été1 A_b", "ab", "+ ±", "!a", "!α", "Äß]", "A٣", "!\n"],
    ),
    "lookbehind": (
        r"""
        start: (STR | QSTR | HASH)+
        STR: /"(?=[^"]).*?(?<!\\)(\\\\)*?"/
        QSTR: /`(\\.|[^`\\])*`/
        HASH: /#+?(?=[0-9])[0-9]+/
        %ignore /[ \t]/
        """,
        EARLEY,
        ['"a"', '"a\\""', "`x\\``", "##12", "#a", '"a" #1 `b`', '"\\\\"'],
    ),
}
