import { useQueryClient } from '@tanstack/react-query'
import { type DragEvent, useCallback, useEffect, useMemo, useRef, useState } from 'react'
import { ApiError, api, explain } from '../api.ts'
import { stopBeginning, useBeginning } from '../beginnings.ts'
import { BranchingContext, useBranching } from '../branching.ts'
import { inForce } from '../choice.ts'
import { attach, submit, useDraft } from '../drafts.ts'
import { isKept } from '../overlays.ts'
import { addTurn, changesSaved, inOrder, keys, refreshQueue, useConversation, useQueue, useStatus, useTurnList } from '../queries.ts'
import { useAgents } from '../resourceQueries.ts'
import { go, goToLine } from '../route.ts'
import { useTurn } from '../turns.ts'
import styles from './Chat.module.css'
import { ChatHeader } from './ChatHeader.tsx'
import { ChoiceLine } from './ChoiceLine.tsx'
import { ComparePick } from './ComparePick.tsx'
import { Composer } from './Composer.tsx'
import { ContextBar } from './ContextBar.tsx'
import controls from './controls.module.css'
import { ErrorNote, QueryError } from './ErrorNote.tsx'
import { Notice } from './Notice.tsx'
import { Queue } from './Queue.tsx'
import { Thread } from './Thread.tsx'
import { Welcome } from './Welcome.tsx'

/** One conversation: its messages and the composer. */
export function Chat({ conversation }: { conversation: string | null }) {
  const client = useQueryClient()
  const status = useStatus()
  const details = useConversation(conversation)
  const list = useTurnList(conversation)
  const stored = useMemo(() => inOrder(list.data), [list.data])
  const newest = stored.at(-1)
  const running = useRunning(newest?.id ?? null, newest?.status === 'running')
  const stop = useStop(conversation, running)
  const model = useModel(conversation, details.data?.model ?? null, status.data?.model ?? null)
  const { branching, problem, forget, stands } = useBranching(conversation, model, stored, running !== null)
  const drop = useDrop(conversation, status.data?.max_upload_bytes)
  const error = details.error ?? list.error
  const observed = details.data?.observed ?? false
  useEffect(() => {
    // Nothing is written to a client's conversation: it has a page of its own.
    if (observed) goToLine(conversation, true)
  }, [observed, conversation])

  const onSubmit = useCallback(async () => {
    const ready = changesSaved(client).then(async (saved) => saved && (await stands()))
    const sent = await submit(conversation, model, ready, (where) => refreshQueue(client, where))
    if (!sent) {
      // Perhaps another window is ahead of this one.
      if (conversation !== null) void client.invalidateQueries({ queryKey: keys.turns(conversation) })
      return
    }
    if ('queued' in sent) refreshQueue(client, sent.conversation)
    else if ('command' in sent) refreshQueue(client, sent.conversation)
    else addTurn(client, sent)
    if (conversation === null) go(sent.conversation, true)
  }, [client, conversation, model, stands])

  return (
    <main className={styles.chat} id="main" tabIndex={-1} {...drop.handlers}>
      <ChatHeader conversation={details.data ?? null} started={conversation !== null} />
      {status.error && (
        <div className={styles.banner}>
          <QueryError error={status.error}>
            <button type="button" className={controls.link} onClick={() => void status.refetch()}>
              Try again
            </button>
          </QueryError>
        </div>
      )}
      {status.data?.notice && <Notice text={status.data.notice} />}
      {conversation === null ? (
        <Welcome />
      ) : error ? (
        <div className={styles.failed}>
          <QueryError error={error}>
            <button type="button" className={controls.link} onClick={() => void list.refetch()}>
              Try again
            </button>
            {error instanceof ApiError && error.status === 404 && (
              <button type="button" className={controls.link} onClick={() => go(null, true)}>
                Start a new conversation
              </button>
            )}
          </QueryError>
        </div>
      ) : (
        <BranchingContext value={branching}>
          <Thread
            conversation={conversation}
            turns={stored}
            loading={list.isLoading}
            earlier={list.hasNextPage ? () => list.fetchNextPage() : null}
            running={running}
          />
        </BranchingContext>
      )}
      <div className={styles.foot}>
        <div className={styles.column}>
          {stop.problem && <ErrorNote problem={stop.problem} />}
          {problem && (
            <ErrorNote problem={problem}>
              <button type="button" className={controls.link} onClick={forget}>
                Dismiss
              </button>
            </ErrorNote>
          )}
          {!error && <ChoiceLine conversation={details.data ?? null} started={conversation !== null} />}
          {!error && <ComparePick conversation={conversation} model={model} />}
          {conversation !== null && <Queue conversation={conversation} running={running !== null} />}
          <Composer
            conversation={conversation}
            limit={status.data?.max_upload_bytes}
            running={running !== null || stop.beginning}
            stopping={stop.asked}
            onSubmit={onSubmit}
            onStop={stop.ask}
          />
          {conversation !== null && <ContextBar conversation={conversation} newest={newest?.id ?? null} />}
        </div>
      </div>
      {drop.over && <div className={styles.drop}>Drop the files to attach them</div>}
    </main>
  )
}

/** The model that answers next; null until it is known. */
function useModel(conversation: string | null, chosen: string | null, usual: string | null): string | null {
  const { choice } = useDraft(null)
  const agents = useAgents()
  return conversation === null ? inForce(choice, agents.data ?? [], [], usual).model : chosen
}

/** The id of the running turn. The packets decide; before they are there, the list does. */
function useRunning(newest: string | null, listed: boolean): string | null {
  const entry = useTurn(newest ?? '')
  if (newest === null) return null
  const running = entry && entry.view.last > 0 ? !entry.view.ended : listed
  return running && entry?.link !== 'lost' ? newest : null
}

/** Stop the answer that runs or is about to: by button, or by Escape while nothing else is open. */
function useStop(conversation: string | null, running: string | null) {
  const [asked, setAsked] = useState<string | null>(null)
  const [problem, setProblem] = useState<{ message: string; hint: string | null } | null>(null)
  const sent = useBeginning(conversation)
  // Its turn begins, and may wait for a compaction: it is known by its message until then.
  const waits = useQueue(conversation).data?.find((one) => one.starting)?.id ?? null
  const beginning = running === null && (sent !== null || waits !== null)
  const stopped = running ?? (sent === null ? waits : null)
  const ask = useCallback(() => {
    setProblem(null)
    if (stopped === null) return stopBeginning(conversation)
    setAsked(stopped)
    const work = running !== null ? api.stop(running) : api.command(conversation!, '/abort')
    work.catch((error: unknown) => {
      setAsked(null)
      setProblem(explain(error))
    })
  }, [conversation, running, stopped])
  const possible = running !== null || beginning
  useEffect(() => {
    if (!possible) return
    const onKey = (event: KeyboardEvent) => {
      if (event.key === 'Escape' && !event.defaultPrevented && !event.isComposing && !isKept(event)) ask()
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [possible, ask])
  useEffect(() => setProblem(null), [running])
  const isAsked = stopped !== null ? asked === stopped : sent?.stopped === true
  return { ask, problem, beginning, asked: isAsked }
}

/** Files dragged from outside. */
function useDrop(conversation: string | null, limit: number | undefined) {
  const [over, setOver] = useState(false)
  const depth = useRef(0)
  const withFiles = (event: DragEvent) => event.dataTransfer.types.includes('Files')
  const handlers = {
    onDragEnter: (event: DragEvent) => {
      if (!withFiles(event)) return
      event.preventDefault()
      depth.current += 1
      setOver(true)
    },
    onDragOver: (event: DragEvent) => {
      if (withFiles(event)) event.preventDefault()
    },
    onDragLeave: (event: DragEvent) => {
      if (!withFiles(event)) return
      depth.current = Math.max(0, depth.current - 1)
      if (depth.current === 0) setOver(false)
    },
    onDrop: (event: DragEvent) => {
      if (!withFiles(event)) return
      event.preventDefault()
      depth.current = 0
      setOver(false)
      attach(conversation, event.dataTransfer.files, limit)
    },
  }
  return { over, handlers }
}
