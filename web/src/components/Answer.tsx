import { usePanels } from '../panels.ts'
import type { TurnView, ShownTurn } from '../turn.ts'
import { type Entry, turns } from '../turns.ts'
import { useBranches } from '../branching.ts'
import styles from './Answer.module.css'
import { Bill } from './Bill.tsx'
import { Blocks, textOf } from './Blocks.tsx'
import { Columns } from './Columns.tsx'
import { CopyButton } from './CopyButton.tsx'
import controls from './controls.module.css'
import { ErrorNote } from './ErrorNote.tsx'
import { AgainIcon, LayersIcon } from './icons.tsx'
import { Plates } from './Plates.tsx'

interface Props {
  turn: ShownTurn
  entry: Entry | undefined
  newest: boolean
}

/** The answer of a turn, from its packets; what happened to it, and what it cost. */
export function Answer({ turn, entry, newest }: Props) {
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
      tabIndex={-1}
      aria-busy={!view.ended}
      data-testid="message-assistant"
      data-status={view.ended ? view.outcome : 'running'}
    >
      {view.degraded.length > 0 && <Degraded view={view} />}
      {several ? (
        <Columns turn={turn} view={view} newest={newest} />
      ) : (
        view.runs.map((run) => (
          <div key={run.index} className={styles.run}>
            <Blocks run={run} view={view} />
          </div>
        ))
      )}
      {!view.ended && (!several || entry.link === 'reconnecting') && <Waiting view={view} link={entry.link} />}
      <Ending turn={turn} entry={entry} several={several} />
      {view.ended && <Footer turn={turn} view={view} />}
    </section>
  )
}

/** Something moves as long as the answer is not complete, and says what is being waited for. */
function Waiting({ view, link }: { view: TurnView; link: Entry['link'] }) {
  const last = view.runs.at(-1)?.blocks.at(-1)
  if (link === 'reconnecting') {
    return <p className={styles.waiting}>Connection lost. The server continues the answer. Reconnecting…</p>
  }
  const what = view.outcome !== 'running' ? null : !last ? 'Waiting for the model' : null
  return (
    <p className={styles.waiting}>
      <Plates />
      {what}
    </p>
  )
}

/** How the turn ended; of several answers each says that for itself. */
function Ending({ turn, entry, several }: { turn: ShownTurn; entry: Entry; several: boolean }) {
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
  if (several) return null
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

function Footer({ turn, view }: { turn: ShownTurn; view: TurnView }) {
  const panels = usePanels()
  const { busy, again } = useBranches()
  const [run, ...others] = view.runs
  const answer = run && others.length === 0 ? textOf(run) : ''
  return (
    <footer className={styles.foot}>
      <span>{others.length > 0 ? `${view.runs.length} models together` : run?.model || turn.model}</span>
      <Bill usage={view.usage ?? turn.usage} cost={view.cost ?? turn.cost} />
      <span className={styles.tools}>
        <button
          type="button"
          className={controls.icon}
          disabled={busy}
          onClick={() => again(turn)}
          aria-label="Answer again"
          title="Answer again with the settings below. This answer is kept in its own branch."
          data-testid="regenerate"
        >
          <AgainIcon />
        </button>
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
