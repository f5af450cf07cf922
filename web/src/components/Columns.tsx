import type { ShownTurn } from '../turn.ts'
import { useBranches } from '../branching.ts'
import { outcomeOf, type RunView, type TurnView } from '../turn.ts'
import answer from './Answer.module.css'
import { Bill } from './Bill.tsx'
import { Blocks, textOf } from './Blocks.tsx'
import styles from './Columns.module.css'
import { CopyButton } from './CopyButton.tsx'
import controls from './controls.module.css'
import { ErrorNote } from './ErrorNote.tsx'
import { StopIcon } from './icons.tsx'
import { Plates } from './Plates.tsx'

interface Props {
  turn: ShownTurn
  view: TurnView
  newest: boolean
}

/** Several models' answers side by side; one below the other on a narrow screen. */
export function Columns({ turn, view, newest }: Props) {
  return (
    <div className={styles.columns} data-count={view.runs.length} data-testid="runs">
      {view.runs.map((run) => (
        <Column key={run.index} turn={turn} view={view} run={run} newest={newest} />
      ))}
    </div>
  )
}

function Column({ turn, view, run, newest }: Props & { run: RunView }) {
  const outcome = outcomeOf(view, run)
  const kept = run.id !== '' && turn.run_id === run.id
  const text = textOf(run)
  return (
    <section
      className={styles.column}
      aria-label={`Answer of ${run.model}`}
      aria-busy={outcome === 'running'}
      data-testid="run"
      data-model={run.model}
      data-status={outcome}
      data-kept={kept}
    >
      <header className={styles.head}>
        <h3 className={styles.name}>{run.model}</h3>
        {outcome === 'running' && <StopRun run={run} />}
      </header>
      <Blocks run={run} view={view} />
      {outcome === 'running' && (
        <p className={answer.waiting}>
          <Plates />
          {run.blocks.length === 0 && 'Waiting for the model'}
        </p>
      )}
      {outcome === 'failed' && <Failure run={run} view={view} />}
      {outcome === 'stopped' && <p className={answer.mark}>Stopped</p>}
      {outcome === 'interrupted' && <p className={answer.mark}>Interrupted: the server ended while answering.</p>}
      <footer className={styles.foot}>
        <Keep turn={turn} view={view} run={run} kept={kept} newest={newest} />
        <Bill usage={run.usage} cost={run.cost} />
        {run.finished && text && <CopyButton text={text} label={`Copy the answer of ${run.model}`} />}
      </footer>
    </section>
  )
}

function StopRun({ run }: { run: RunView }) {
  const { stop } = useBranches()
  if (run.id === '') return null
  return (
    <button
      type="button"
      className={`${controls.link} ${styles.stop}`}
      onClick={() => stop(run.id)}
      aria-label={`Stop the answer of ${run.model}`}
      data-testid="run-stop"
    >
      <StopIcon size={12} />
      Stop
    </button>
  )
}

function Failure({ run, view }: { run: RunView; view: TurnView }) {
  const error = run.error ?? view.error ?? { message: 'This answer failed.' }
  const hint = error.hint ?? 'The other models continue. You can ask again, with or without this model.'
  return <ErrorNote problem={{ message: error.message, hint }} />
}

/** The next message has the answer that is kept alone in its window. One that failed can't be kept. */
function Keep({ turn, view, run, kept, newest }: Props & { run: RunView; kept: boolean }) {
  const { busy, go } = useBranches()
  if (kept) return <span className={styles.kept}>{newest ? 'The next message continues from this answer' : 'Kept'}</span>
  const failed = outcomeOf(view, run) === 'failed'
  if (run.id === '' || failed || (view.ended && run.blocks.length === 0)) return null
  return (
    <button
      type="button"
      className={controls.plain}
      // While this turn runs it can be chosen already; while another does, it can't.
      disabled={busy && view.ended}
      onClick={() => go(turn.id, run.id)}
      title={
        newest ? 'Go on from this answer' : 'Go on from this answer: what follows the other one is kept in its own branch'
      }
      data-testid="run-keep"
    >
      Keep this one
    </button>
  )
}
