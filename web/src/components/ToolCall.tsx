import { useState } from 'react'
import { useIsFound } from '../finding.ts'
import { duration, exact } from '../format.ts'
import type { ToolBlock } from '../turn.ts'
import { Approval } from './Approval.tsx'
import controls from './controls.module.css'
import styles from './Fold.module.css'
import { ChevronIcon } from './icons.tsx'

/** Characters of a result that are shown. */
const SHOWN = 8_000

export type CallState = 'waiting' | 'running' | 'finished' | 'failed' | 'denied' | 'not-run' | 'handed-out' | 'no-result'

/** What became of a call. One that was not approved did not run, nor did one whose turn ended while it waited. */
export function stateOf({ result, approval, handedOut }: ToolBlock, ended: boolean): CallState {
  if (approval?.approved === false) return 'denied'
  if (result) return result.isError ? 'failed' : 'finished'
  if (handedOut) return 'handed-out'
  if (approval?.approved === null) return ended ? 'not-run' : 'waiting'
  return ended ? 'no-result' : 'running'
}

const SAID: Record<CallState, string> = {
  waiting: 'waits for you',
  running: 'running…',
  finished: '',
  failed: 'failed',
  denied: 'denied, not run',
  'not-run': 'not run',
  'handed-out': 'handed to the caller',
  'no-result': 'no result',
}

/** Any tool: its name, what it was asked, what it gave back. One that waits for the user is open and asks. */
export function ToolCall({ block, ended }: { block: ToolBlock; ended: boolean }) {
  const { result } = block
  const state = stateOf(block, ended)
  return (
    <>
      <Card block={block} state={state} seconds={result?.seconds ?? null} />
      {state === 'waiting' && block.approval && <Approval block={block} turn={block.approval.turnId} />}
    </>
  )
}

function Card({ block, state, seconds }: { block: ToolBlock; state: CallState; seconds: number | null }) {
  const { result } = block
  const [whole, setWhole] = useState(false)
  const found = useIsFound(block.callId)
  const shown = whole || found ? Infinity : SHOWN
  return (
    <details
      className={styles.fold}
      open={state === 'waiting' || found}
      data-testid="tool-call"
      data-state={state}
      data-call={block.callId}
    >
      <summary>
        <ChevronIcon size={14} />
        <span className={styles.name}>{block.name}</span>
        <span className={styles.gist} dir="auto">
          {gist(block.args)}
        </span>
        <span className={state === 'failed' ? styles.bad : styles.state}>{SAID[state]}</span>
        {seconds !== null && <span className={styles.state}>{duration(seconds)}</span>}
      </summary>
      {block.args && (
        <div className={styles.part}>
          <h3>Arguments</h3>
          <pre tabIndex={0} dir="auto">
            {pretty(block.args)}
          </pre>
        </div>
      )}
      {result && (
        <div className={styles.part}>
          <h3>{result.isError ? 'Error' : 'Result'}</h3>
          <pre tabIndex={0} dir="auto">
            {result.content.slice(0, shown)}
          </pre>
          {result.content.length > shown && (
            <p className={styles.state}>
              Shortened; the model has all {exact(result.content.length)} characters.{' '}
              <button type="button" className={controls.link} onClick={() => setWhole(true)}>
                Show all
              </button>
            </p>
          )}
        </div>
      )}
    </details>
  )
}

function parsed(args: string): unknown {
  try {
    const value: unknown = JSON.parse(args)
    return typeof value === 'string' ? parsed(value) : value // some models encode them twice
  } catch {
    return undefined // still on its way, or not JSON
  }
}

function pretty(args: string): string {
  const value = parsed(args)
  return value === undefined ? args : JSON.stringify(value, null, 2)
}

/** The values of the arguments in one line. */
function gist(args: string): string {
  const value = parsed(args)
  if (typeof value !== 'object' || value === null) return ''
  return Object.values(value)
    .map((one) => (typeof one === 'string' ? one : JSON.stringify(one)))
    .join(', ')
    .slice(0, 200)
}
