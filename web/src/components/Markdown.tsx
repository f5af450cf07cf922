import { type ComponentProps, createContext, memo, useContext, useMemo } from 'react'
import ReactMarkdown, { type Components } from 'react-markdown'
import remarkGfm from 'remark-gfm'
import { grouped, placeTokens, remarkCitations, restoreTokens, type Group } from '../citations.ts'
import { remarkDirections } from '../directions.ts'
import { placeMaths, remarkMaths } from '../maths.ts'
import type { CitationPacket } from '../objects.ts'
import { fenceIn, pieces, steady } from '../steady.ts'
import type { Source } from '../turn.ts'
import { CitationButton } from './CitationButton.tsx'
import { Code, Preformatted } from './Code.tsx'
import styles from './Markdown.module.css'
import { Maths } from './Maths.tsx'

interface Props {
  text: string
  citations: CitationPacket[]
  sources: Record<number, Source>
  growing: boolean
}

interface Cited {
  groups: Group<CitationPacket>[]
  sources: Record<number, Source>
}

const CitedContext = createContext<Cited>({ groups: [], sources: {} })

/** An answer's text. HTML in it is shown as text, images as links: nothing is loaded from elsewhere. */
export const Markdown = memo(function Markdown({ text, citations, sources, growing }: Props) {
  const cited = useMemo(() => ({ groups: grouped(citations), sources }), [citations, sources])
  const placed = useMemo(() => {
    const { text: tokened, originals } = placeTokens(text, cited.groups)
    return { text: placeMaths(tokened, growing, (tex) => restoreTokens(tex, originals)), originals }
  }, [text, cited, growing])
  const shown = growing ? steady(placed.text) : placed.text
  const marks = placed.originals.join('\0')
  return (
    <CitedContext value={cited}>
      <div className={styles.prose} data-growing={growing}>
        {pieces(shown).map((piece, index) => (
          <Piece key={index} text={piece} marks={marks} />
        ))}
      </div>
    </CitedContext>
  )
})

/** A part that is parsed again only when it changed. `marks` are the citations as written, one string to compare. */
const Piece = memo(
  function Piece({ text, marks }: { text: string; marks: string }) {
    const fence = fenceIn(text)
    if (fence) return <Code code={fence.code} named={fence.language} />
    return (
      <ReactMarkdown
        remarkPlugins={[remarkGfm, [remarkCitations, { originals: marks.split('\0') }], remarkMaths, remarkDirections]}
        components={components}
        urlTransform={safeAddress}
      >
        {text}
      </ReactMarkdown>
    )
  },
  // Later citations do not change the marks that a piece already has.
  (old, next) => old.text === next.text && (next.marks === old.marks || next.marks.startsWith(`${old.marks}\0`)),
)

function safeAddress(address: string): string {
  return /^(?:https?:|mailto:|#)/i.test(address) ? address : ''
}

const components = {
  a: ({ href, children }: ComponentProps<'a'>) =>
    href ? (
      <a href={href} target={href.startsWith('#') ? undefined : '_blank'} rel="noopener noreferrer nofollow">
        {children}
      </a>
    ) : (
      <span>{children}</span>
    ),
  img: ({ src, alt }: ComponentProps<'img'>) =>
    typeof src === 'string' && src ? (
      <a href={src} target="_blank" rel="noopener noreferrer nofollow">
        {alt || 'Image'}
      </a>
    ) : (
      <span>{alt}</span>
    ),
  table: ({ children, dir }: ComponentProps<'table'>) => (
    <div className={styles.table} dir={dir} tabIndex={0} role="group" aria-label="Table">
      <table dir={dir}>{children}</table>
    </div>
  ),
  pre: Preformatted,
  'cite-mark': CiteMark,
  'math-tex': Maths,
} as Components

function CiteMark({ number }: { number?: number | string }) {
  const { groups, sources } = useContext(CitedContext)
  const group = groups[Number(number)]
  return group?.items.map((citation, index) => (
    <CitationButton key={index} citation={citation} source={sources[citation.document]} />
  ))
}
