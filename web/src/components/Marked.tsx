import type { ReactNode } from 'react'

/** A text with what fits in it marked; the places are counted in characters, not in UTF-16. */
export function Marked({ text, marks }: { text: string; marks: readonly { start: number; end: number }[] }) {
  const characters = [...text]
  const shown: ReactNode[] = []
  let at = 0
  for (const { start, end } of marks) {
    shown.push(characters.slice(at, start).join(''), <mark key={start}>{characters.slice(start, end).join('')}</mark>)
    at = end
  }
  return [...shown, characters.slice(at).join('')]
}
