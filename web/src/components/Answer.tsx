import type { Turn } from '../api.ts'
import { dollars, exact, percent, tokens } from '../format.ts'
import { usePanels } from '../panels.ts'
import type { Block, RunView, TurnView } from '../turn.ts'
import { type Entry, turns } from '../turns.ts'
import styles from './Answer.module.css'
import { CopyButton } from './CopyButton.tsx'
import controls from './controls.module.css'
import { ErrorNote } from './ErrorNote.tsx'
import { LayersIcon } from './icons.tsx'
import { Markdown } from './Markdown.tsx'
import { Reasoning } from './Reasoning.tsx'
import { ToolCall } from './ToolCall.tsx'

interface Props {
  turn: Turn
  entry: Entry | undefined
}

/** The answer of a turn, from its packets; what happened to it, and what it cost. */
export function Answer({ turn, entry }: Props) {
  if (!entry || (entry.view.last === 0 && !entry.problem)) {
    return (
      <section className={styles.answer} aria-label="Answer" data-testid="message-assistant" data-status="loading">
        <p className={styles.quiet}>{turn.status === 'running' ? 'Connecting to the answer…' : 'Loading the answer…'}</p>
      </section>
    )
  }
  const { view } = entry
  const several = view.runs.length > 1
  return (
    <section
      className={styles.answer}
      aria-label="Answer"
      aria-busy={!view.ended}
      data-testid="message-assistant"
      data-status={view.ended ? view.outcome : 'running'}
    >
      {view.degraded.length > 0 && <Degraded view={view} />}
      {view.runs.map((run) => (
        <Run key={run.index} run={run} view={view} named={several} />
      ))}
      {!view.ended && <Waiting view={view} link={entry.link} />}
      <Ending turn={turn} entry={entry} />
      {view.ended && <Footer turn={turn} view={view} />}
    </section>
  )
}

function Run({ run, view, named }: { run: RunView; view: TurnView; named: boolean }) {
  const live = !view.ended && !run.finished
  return (
    <div className={styles.run}>
      {named && <p className={styles.model}>{run.model}</p>}
      {run.blocks.map((block, index) => (
        <BlockView key={block.key} block={block} view={view} growing={live && index === run.blocks.length - 1} />
      ))}
    </div>
  )
}

function BlockView({ block, view, growing }: { block: Block; view: TurnView; growing: boolean }) {
  switch (block.kind) {
    case 'reasoning':
      return <Reasoning text={block.text} growing={growing} />
    case 'tool':
      return <ToolCall block={block} ended={view.ended} />
    case 'text':
      return <Markdown text={block.text} citations={block.citations} sources={view.sources} growing={growing} />
  }
}

/** Something moves as long as the answer is not complete, and says what is being waited for. */
function Waiting({ view, link }: { view: TurnView; link: Entry['link'] }) {
  const last = view.runs.at(-1)?.blocks.at(-1)
  if (link === 'reconnecting') {
    return <p className={styles.waiting}>Connection lost. The answer goes on at the server; connecting again…</p>
  }
  const what = view.outcome !== 'running' ? null : !last ? 'Waiting for the model' : null
  return (
    <p className={styles.waiting}>
      <span className={styles.plates} aria-hidden="true">
        <i />
        <i />
        <i />
      </span>
      {what}
    </p>
  )
}

function Ending({ turn, entry }: Props) {
  if (!entry) return null
  const { view, problem } = entry
  if (problem) {
    return (
      <ErrorNote problem={problem}>
        <button type="button" className={controls.link} onClick={() => void turns.open(turn.id, turn.status === 'running')}>
          Try again
        </button>
      </ErrorNote>
    )
  }
  if (!view.ended && view.error) return <ErrorNote problem={view.error} />
  if (view.outcome === 'failed') {
    const error = view.runs.find((run) => run.error)?.error ?? view.error ?? turn.error ?? { message: 'The answer failed.' }
    return <ErrorNote problem={{ message: error.message, hint: error.hint ?? null }} />
  }
  if (view.outcome === 'stopped') return <p className={styles.mark}>Stopped</p>
  if (view.outcome === 'interrupted') {
    return <p className={styles.mark}>Interrupted: the server ended while answering. What had arrived is kept.</p>
  }
  return null
}

/** What had to be left out, cut or listed for this answer. The reason names it; the subject is an id. */
function Degraded({ view }: { view: TurnView }) {
  return (
    <ul className={styles.degraded} aria-label="Left out or shortened" data-testid="degraded">
      {view.degraded.map(({ why }, index) => (
        <li key={index}>{why}</li>
      ))}
    </ul>
  )
}

function Footer({ turn, view }: { turn: Turn; view: TurnView }) {
  const panels = usePanels()
  const usage = view.usage ?? turn.usage
  const cost = view.cost ?? turn.cost
  const model = view.runs[0]?.model || turn.model
  const answer = view.runs
    .flatMap((run) => run.blocks)
    .flatMap((block) => (block.kind === 'text' ? [block.text] : []))
    .join('\n\n')
  return (
    <footer className={styles.foot}>
      <span>{model}</span>
      {usage && usage.input > 0 && (
        <span title={`${exact(usage.input)} in, of which ${exact(usage.cache_read)} from the cache; ${exact(usage.output)} out`}>
          {tokens(usage.input)} in, {percent(usage.cache_read / usage.input)} cached · {tokens(usage.output)} out
        </span>
      )}
      {cost !== null && cost > 0 && <span>{dollars(cost)}</span>}
      <span className={styles.tools}>
        {view.requests.length > 0 && (
          <button
            type="button"
            className={controls.icon}
            onClick={() => panels.show({ kind: 'context', turn: turn.id })}
            aria-label="Show the context of this answer"
            title="Context of this answer"
            data-testid="answer-context"
          >
            <LayersIcon />
          </button>
        )}
        {answer && <CopyButton text={answer} label="Copy the answer" />}
      </span>
    </footer>
  )
}
