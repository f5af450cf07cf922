/**
 * Makes Markdown that is still being written look as it will look when it is finished.
 *
 * What the next characters could still turn into something else is held back (half a link, half a table head, a line
 * of dashes, a citation), what was opened and will be closed is closed (bold, code). Only the last block is touched.
 */

const HELD_BACK = 300

/** The text to show while more is coming. */
export function steady(text: string): string {
  const start = lastBlock(text)
  if (start < 0) return holdFence(text)
  return text.slice(0, start) + closed(held(text.slice(start)))
}

/** Where the last block begins, -1 inside an open code fence. */
function lastBlock(text: string): number {
  let start = 0
  let at = 0
  let fence = ''
  const lines = text.split('\n')
  for (const [number, line] of lines.entries()) {
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1]
    if (fence) {
      if (mark?.startsWith(fence) && line.trim() === mark) {
        fence = ''
        start = at + line.length + 1
      }
    } else if (mark) fence = mark
    else if (line.trim() === '' && number < lines.length - 1) start = at + line.length + 1
    at += line.length + 1
  }
  return fence ? -1 : Math.min(start, text.length)
}

/** Inside a fence only its last line can change: half of the closing fence. */
function holdFence(text: string): string {
  return text.replace(/\n {0,3}[`~]+$/, '\n')
}

/** Without the end that may still become something else. */
function held(block: string): string {
  const lines = block.split('\n')
  const last = lines.at(-1) ?? ''
  if (lines.length < 3 && lines[0]?.trimStart().startsWith('|') && !isTableHead(lines[0], lines[1] ?? '')) return ''
  // Dashes under a paragraph make it a heading, digits a list, and so on: wait for the first letter.
  if (/^\s*(?:[-=+*#>_~`]+|\d+[.)]?|[-*+] \[?[ x]?\]?)\s*$/.test(last)) lines.pop()
  return holdLink(holdMarks(lines.join('\n')))
}

/** A table is a table only once its second line has as many cells as its first. */
function isTableHead(names: string, dashes: string): boolean {
  const cells = (line: string) => line.trim().split('|').length
  return /^[\s|:-]+\|\s*$/.test(dashes) && cells(dashes) >= cells(names)
}

function holdMarks(block: string): string {
  return block.replace(/(?<=\s|^)(?:\*{1,3}|_{1,3}|~~?|`+|!)$/, '').replace(/\\$/, '')
}

/** A bracket that is not closed, and one that an address or a citation may follow. */
function holdLink(block: string): string {
  const open = block.lastIndexOf('[')
  if (open < 0 || block.length - open > HELD_BACK || block[open - 1] === '\\') return block
  const tail = block.slice(open)
  const half = !tail.includes(']') || /^\[[^\]\n]*\]\([^)\n]*$/.test(tail) || /^\[[^\]\n]*\]$/.test(tail)
  const from = block[open - 1] === '!' ? open - 1 : open
  return half && !inCode(block, open) ? block.slice(0, from) : block
}

function inCode(block: string, at: number): boolean {
  return (block.slice(0, at).match(/`+/g) ?? []).length % 2 === 1
}

/** With a closing mark for everything that was opened. */
function closed(block: string): string {
  const ticks = block.match(/`+/g) ?? []
  if (ticks.length % 2 === 1) return block.trimEnd() + ticks.at(-1)
  const plain = block.replace(/(`+)[^]*?\1/g, '').replace(/\\./g, '').replace(/\[[^\]]*\]\([^)]*\)/g, '')
  let ends = ''
  if ((plain.match(/~~/g) ?? []).length % 2 === 1) ends += '~~'
  const bold = (plain.match(/\*\*/g) ?? []).length % 2 === 1
  const single = plain.replace(/\*\*/g, '').match(/(?<![\s*])\*|\*(?![\s*])/g) ?? []
  if (single.length % 2 === 1) ends = `*${ends}`
  if (bold) ends += '**'
  return ends ? block.trimEnd() + ends : block
}

/** Units of a code fence that stands by itself: nothing in it is Markdown, and parsing it takes long. */
const LONG_FENCE = 2_000

/**
 * Cuts Markdown where cutting changes nothing: around a long fence, and before a heading or paragraph that follows a
 * blank line. Finished pieces then need no parsing again. Text with definitions or footnotes stays whole.
 */
export function pieces(text: string): string[] {
  if (text.length < 1500) return [text]
  const cut: string[] = []
  let prose = ''
  let piece = ''
  let fence = ''
  let from = -1
  let blank = false
  const partFence = () => {
    if (from >= 0 && piece.length - from >= LONG_FENCE) {
      if (from > 0) cut.push(piece.slice(0, from))
      cut.push(piece.slice(from))
      piece = ''
    }
  }
  for (const line of text.split(/(?<=\n)/)) {
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1]
    const closes = fence !== '' && mark?.startsWith(fence) && line.trim() === mark
    if (!fence && blank && piece.length > 600 && /^(?:[\p{L}#]|\*\*\p{L})/u.test(line)) {
      cut.push(piece)
      piece = ''
    }
    if (!fence && mark) {
      fence = mark
      from = line.startsWith(mark) ? piece.length : -1
    }
    if (!fence) prose += line
    blank = line.trim() === ''
    piece += line
    if (!closes) continue
    partFence()
    fence = ''
  }
  if (fence) partFence()
  if (piece) cut.push(piece)
  return /^ {0,3}\[[^\]]+\]:|\[\^/m.test(prose) ? [text] : cut
}

/** A piece that is nothing but a long fence; null for every other. */
export function fenceIn(piece: string): { code: string; language: string } | null {
  const opening = piece.length < LONG_FENCE ? null : /^(`{3,}|~{3,})[ \t]*([^\s`]*)[^\n`]*\n/.exec(piece)
  if (!opening) return null
  const [{ length }, mark, language] = opening as unknown as [string, string, string]
  const closing = new RegExp(`^ {0,3}${mark}${mark[0]}*[ \\t]*$`, 'm').exec(piece.slice(length))
  if (!closing) return { code: piece.slice(length), language }
  const end = length + closing.index
  return piece.slice(end + closing[0].length).trim() === '' ? { code: piece.slice(length, end), language } : null
}
