import type { Block, RunView, TurnView } from '../turn.ts'
import { Markdown } from './Markdown.tsx'
import { Reasoning } from './Reasoning.tsx'
import styles from './Answer.module.css'
import { ToolCall } from './ToolCall.tsx'

/** What one model wrote and did, in order. */
export function Blocks({ run, view }: { run: RunView; view: TurnView }) {
  const ended = view.ended || run.finished
  return (
    <>
      {run.blocks.map((block, index) => (
        <BlockView key={block.key} block={block} view={view} ended={ended} growing={!ended && index === run.blocks.length - 1} />
      ))}
      {run.partial && <Partial {...run.partial} />}
    </>
  )
}

/** Behind an answer that is not whole: why, and what to do. */
function Partial({ message, hint }: { message: string; hint: string }) {
  return (
    <p className={styles.mark} role="note" data-testid="partial">
      {message} {hint}
    </p>
  )
}

function BlockView({ block, view, ended, growing }: { block: Block; view: TurnView; ended: boolean; growing: boolean }) {
  switch (block.kind) {
    case 'reasoning':
      return <Reasoning text={block.text} growing={growing} />
    case 'tool':
      return <ToolCall block={block} ended={ended} />
    case 'text':
      return <Markdown text={block.text} citations={block.citations} sources={view.sources} growing={growing} />
  }
}

/** The text of an answer, for the clipboard. */
export function textOf(run: RunView): string {
  return run.blocks.flatMap((block) => (block.kind === 'text' ? [block.text] : [])).join('\n\n')
}
