/**
 * Finds maths in Markdown before Markdown is parsed, which would eat `\,` and `\(` and take `_` for emphasis.
 *
 * Each formula is replaced by a token; a remark plugin turns the tokens in running text into formulas, and everywhere
 * else (code, addresses, HTML) back into what the model wrote. What is maths is decided as the engine decides it when
 * it looks for citations (`agent/citation_scanner.py`): `tests/agent/maths.json` holds both to the same cases.
 *
 * Maths is `$…$`, `$$…$$`, `\(…\)` and `\[…\]`, outside of code, closed in its paragraph. Single dollars stand on one
 * line, with no space inside of them and no word outside; one before an amount begins none, unless a formula follows.
 */

/** Units `start` to `end` of a text, delimiters included; `open` of one that is still being written. */
interface Span {
  start: number
  end: number
}

interface Found {
  maths: Span[]
  /** Where maths begins that more of the text may close; -1 if none is open. */
  open: number
}

const LONGEST_INLINE = 300
/** Units of open maths that are held back. Words are shown sooner: `$HOME is` is hardly a formula. */
const HELD_WORDS = 40
const HELD_DISPLAY = 2_000

const OPENING = /[`~$\\]/g
const FORMULA = /[\\^_={}<>]/
/** Scripts without capitals are written without a space before a formula, as in “公式$x$是”. */
const WORD_BEFORE = /[\p{Lowercase}\p{Uppercase}\p{Lt}\p{Nd}]$/u
const WORD_AFTER = /^[\p{Lowercase}\p{Uppercase}\p{Lt}\p{Nd}]/u
const CLOSES: Record<string, string> = { '\\(': '\\)', '\\[': '\\]' }

/** The maths of a text. While it grows, what is not closed yet is `open`; else it is text. */
export function mathsIn(text: string, growing = false): Found {
  const scanner = new Scanner(text, growing)
  return scanner.scan()
}

class Scanner {
  readonly #text: string
  readonly #growing: boolean
  /** By the mark that closes maths, up to where none is. */
  readonly #unclosed = new Map<string, number>()
  #open = -1

  constructor(text: string, growing: boolean) {
    this.#text = text
    this.#growing = growing
  }

  scan(): Found {
    const maths: Span[] = []
    let at = 0
    while (this.#open < 0) {
      OPENING.lastIndex = at
      const mark = OPENING.exec(this.#text)
      if (mark === null) break
      const start = mark.index
      const maybe = mark[0] === '$' ? this.#dollars(start) : mark[0] === '\\' ? this.#backslash(start) : this.#code(start)
      if (this.#open < 0 && maybe.maths) maths.push({ start, end: maybe.end })
      at = maybe.end
    }
    return { maths, open: this.#open }
  }

  #dollars(start: number) {
    const length = run(this.#text, start)
    if (length === 1) return this.#inline(start)
    return length === 2 ? this.#closed(start, start + 2, '$$') : plain(start + length)
  }

  #backslash(start: number) {
    const opening = this.#text.slice(start, start + 2)
    const closing = CLOSES[opening]
    if (closing !== undefined) return this.#closed(start, start + 2, closing)
    if (opening === '\\' && this.#growing) this.#open = start
    return plain(start + (opening === '\\\\' || opening === '\\$' ? 2 : 1))
  }

  /** The next dollar decides: in “$5 and $6” it closes nothing. */
  #inline(start: number) {
    const text = this.#text
    const none = plain(start + 1)
    if (WORD_BEFORE.test(text.slice(Math.max(0, start - 2), start)) || /\s/.test(text[start + 1] ?? '')) return none
    const inside = /(?:\\[^\n]|[^\\$`\n])*/y
    inside.lastIndex = start + 1
    inside.exec(text)
    const end = inside.lastIndex
    if (end - start > LONGEST_INLINE) return none
    const formula = FORMULA.test(text.slice(start, end))
    const amount = /\p{Nd}/u.test(text[start + 1] ?? '')
    if (this.#growing && end >= text.length - 1 && '$\\'.includes(text[end] ?? '')) {
      if (formula || (!amount && end - start < HELD_WORDS)) this.#open = start
      return none
    }
    const behind = text[end + 1] ?? ''
    // “${a}-${b}” and “$(a)/$(b)” are variables of a shell.
    const variable = behind === '{' || (behind === '(' && text[start + 1] === '(')
    const closes = text[end] === '$' && behind !== '$' && !variable && !WORD_AFTER.test(text.slice(end + 1, end + 3))
    return closes && !/\s/.test(text[end - 1]!) && (formula || !amount) ? { end: end + 1, maths: true } : none
  }

  /** Maths that a mark closes in its paragraph. */
  #closed(start: number, begin: number, closing: string) {
    if (begin <= (this.#unclosed.get(closing) ?? 0)) return plain(begin)
    const marks = /\\[^\n]|\$+|\n[ \t]*\n/g
    marks.lastIndex = begin
    for (let mark = marks.exec(this.#text); mark !== null; mark = marks.exec(this.#text)) {
      if (mark[0] === closing) {
        const prose = closing !== '$$' && isProse(closing, this.#text.slice(begin, mark.index))
        return prose ? plain(begin) : { end: marks.lastIndex, maths: true }
      }
      if (!mark[0].startsWith('\n')) continue
      this.#unclosed.set(closing, marks.lastIndex)
      return plain(begin)
    }
    if (this.#growing && this.#text.length - start < HELD_DISPLAY) this.#open = start
    else this.#unclosed.set(closing, this.#text.length)
    return plain(begin)
  }

  /** Code holds no maths. Backticks that nothing closes in their paragraph are just backticks. */
  #code(start: number) {
    const text = this.#text
    const length = run(text, start)
    const mark = text[start]!
    const end = start + length
    if (length >= 3 && /^\s*$/.test(text.slice(text.lastIndexOf('\n', start - 1) + 1, start))) {
      const line = /[^\n]*/y
      line.lastIndex = end
      const info = line.exec(text)![0]
      if (mark === '~' || !info.includes('`')) return plain(endOfFence(text, end, mark, length))
    }
    return plain(mark === '~' ? end : (endOfSpan(text, end, length) ?? (this.#growing ? text.length : end)))
  }
}

/**
 * Whether escaped brackets hold words, as in “Dear \[Your Name\]”: no sign of a formula, but more than letters.
 * Between round ones stand names such as “ABCD” and numbers; alone on a line these are hardly a formula.
 */
function isProse(closing: string, inside: string): boolean {
  if (/[\\^_={}<>*\p{Sm}]/u.test(inside)) return false
  const words = inside.match(/\p{L}+/gu) ?? []
  if (words.some((word) => /[^\p{Lowercase}\p{Uppercase}\p{Lt}]/u.test(word))) return true
  if (closing === '\\]') return words.length === 0 || words.some((word) => [...word].length > 2)
  const spoken = words.filter((word) => /^\p{L}\P{Uppercase}+$/u.test(word)).map((word) => [...word].length)
  return spoken.length > 1 || Math.max(0, ...spoken) > 4
}

const plain = (end: number) => ({ end, maths: false })

/** How many equal characters begin here. */
function run(text: string, start: number): number {
  let end = start + 1
  while (text[end] === text[start]) end += 1
  return end - start
}

/** A fence lasts to a line of at least as many of its characters, or to the end. */
function endOfFence(text: string, begin: number, mark: string, length: number): number {
  const closing = new RegExp(`^[ \\t]*${mark}{${length},}[ \\t]*$`, 'gm')
  closing.lastIndex = begin
  return closing.exec(text) ? closing.lastIndex : text.length
}

/** A span lasts to the next run of exactly as many backticks. Null if more of the text may close it, else its own end. */
function endOfSpan(text: string, begin: number, length: number): number | null {
  const marks = /`+|\n[ \t]*\n/g
  marks.lastIndex = begin
  for (let mark = marks.exec(text); mark !== null; mark = marks.exec(text)) {
    if (mark[0].startsWith('\n')) return begin
    if (mark[0].length === length) return marks.lastIndex
  }
  return null
}

/*
 * A token holds what it stands for, so that a piece of text can be parsed by itself: the formula as it was written, in
 * hexadecimal between two noncharacters. Those can't come from a model, because they are removed from its text first.
 */
const EDGE = '\uFDD1'
const TOKEN = /\uFDD1([0-9a-f]*)\uFDD1/g

const encode = (text: string) =>
  EDGE + Array.from({ length: text.length }, (_, at) => text.charCodeAt(at).toString(16).padStart(4, '0')).join('') + EDGE

const decode = (hex: string) => hex.replace(/..../g, (unit) => String.fromCharCode(parseInt(unit, 16)))

/** `text` with its maths as tokens; while it grows, without an end that may still become maths. */
export function placeMaths(text: string, growing: boolean, restore: (tex: string) => string = (tex) => tex): string {
  const safe = text.replaceAll(EDGE, '\uFFFD')
  const { maths, open } = mathsIn(safe, growing)
  let placed = ''
  let at = 0
  for (const { start, end } of maths) {
    placed += safe.slice(at, start) + encode(restore(unquoted(safe, start, end)))
    at = end
  }
  return placed + safe.slice(at, open < 0 ? undefined : open)
}

/** What stands between `start` and `end`, without the marks of a quotation before its lines. */
function unquoted(text: string, start: number, end: number): string {
  const written = text.slice(start, end)
  const line = text.slice(text.lastIndexOf('\n', start - 1) + 1, start)
  const depth = (/^[ \t>]*/.exec(line)![0].match(/>/g) ?? []).length
  return depth === 0 ? written : written.replace(new RegExp(`\\n(?:[ \\t]*>){1,${depth}}`, 'g'), '\n')
}

/** `text` with its tokens as they were written. */
export function restoreMaths(text: string): string {
  return text.replace(TOKEN, (_, hex: string) => decode(hex))
}

/** The parts of a Markdown tree that matter here. */
interface TreeNode {
  type: string
  value?: string
  children?: TreeNode[]
  data?: Record<string, unknown>
  [field: string]: unknown
}

/** A remark plugin: tokens in text become `math-tex` elements with `tex` and `display`, all others are restored. */
export function remarkMaths() {
  return (tree: unknown): void => visit(tree as TreeNode)
}

const WRITTEN = ['value', 'url', 'alt', 'title', 'lang', 'meta', 'label'] as const

function visit(node: TreeNode): void {
  for (const field of WRITTEN) {
    const value = node[field]
    if (typeof value === 'string' && value.includes(EDGE)) node[field] = restoreMaths(value)
  }
  node.children = node.children?.flatMap((child) => {
    if (child.type === 'text') return split(child)
    visit(child)
    return [child]
  })
}

function split(node: TreeNode): TreeNode[] {
  const value = node.value ?? ''
  if (!value.includes(EDGE)) return [node]
  return value.split(TOKEN).flatMap((part, index): TreeNode[] => {
    if (index % 2 === 1) return [formula(decode(part))]
    return part === '' ? [] : [{ type: 'text', value: part }]
  })
}

function formula(written: string): TreeNode {
  const isDisplay = written.startsWith('$$') || written.startsWith('\\[')
  const width = written.startsWith('$') && !isDisplay ? 1 : 2
  const tex = written.slice(width, -width)
  const hProperties = { tex, display: isDisplay ? 'block' : 'inline', written }
  return { type: 'maths', children: [], data: { hName: 'math-tex', hProperties } }
}
