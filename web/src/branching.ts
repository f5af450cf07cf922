/** Edits, repeated questions, and the answer that goes on: what a reader does to the tree of a conversation. */

import type { ShownTurn } from './turn.ts'
import { type QueryClient, useQueryClient } from '@tanstack/react-query'
import { createContext, useCallback, useContext, useEffect, useMemo, useRef, useState } from 'react'
import { api, ApiError, explain, newKey } from './api.ts'
import { onItsWay } from './beginnings.ts'
import { severalModels } from './choice.ts'
import { begin, timezone, useDraft } from './drafts.ts'
import { changesSaved, keys, refreshQueue, refreshTold } from './queries.ts'

export interface Problem {
  message: string
  hint: string | null
}

export interface Branching {
  /** The conversation answers, or goes elsewhere: only what belongs to the running answers can be done. */
  busy: boolean
  /** Send another text in the place of a message; what is wrong with it comes back. */
  edit: (turn: ShownTurn, text: string) => Promise<Problem | null>
  /** Ask what a turn asked once more, beside it. */
  again: (turn: ShownTurn) => void
  /** Go on from an answer of a turn, and to the newest turn that came after it. */
  go: (turn: string, run?: string) => void
  stop: (run: string) => void
}

type NewQuestion = { text: string; file_ids: string[]; parent_message_id: string | null } | { regenerate: string }

const nothing: Branching = {
  busy: true,
  edit: () => Promise.resolve(null),
  again: () => undefined,
  go: () => undefined,
  stop: () => undefined,
}

export const BranchingContext = createContext<Branching>(nothing)

export const useBranches = () => useContext(BranchingContext)

/** What is told when the path that was shown has become another in another window. */
export const wentElsewhere: Problem = {
  message: 'This conversation went on in another branch, in another window.',
  hint: 'That branch is shown now. What was shown before is kept: the arrows at a message lead back to it.',
}

/** Everything a reader does to the tree; `model` is the conversation's, `turns` the path that is shown. */
export function useBranching(conversation: string | null, model: string | null, turns: ShownTurn[], running: boolean) {
  const client = useQueryClient()
  const { others } = useDraft(conversation)
  const [going, setGoing] = useState(false)
  const [problem, setProblem] = useState<Problem | null>(null)
  const path = usePath(conversation, turns, going, setProblem)

  const look = useCallback(() => refreshPath(client, conversation!), [client, conversation])
  const go = useCallback(
    async (work: () => Promise<unknown>): Promise<Problem | null> => {
      setGoing(true)
      setProblem(null)
      path.mine()
      try {
        await work()
        return null
      } catch (error) {
        path.others()
        return explain(error)
      } finally {
        await look()
        setGoing(false)
      }
    },
    [look, path],
  )
  const ask = useCallback(
    (value: () => Promise<NewQuestion>) =>
      go(async () => {
        const way = onItsWay(conversation)
        try {
          if (!(await changesSaved(client))) throw new ApiError(0, notSaved)
          const models = severalModels(model, others)
          const body = { ...(await value()), ...models, timezone: timezone(), queue: false, debounce_ms: 0 }
          if (way.stopped()) return
          const taken = await way.send(conversation!, () => begin(conversation!, newKey(), body))
          if (taken.type === 'command') refreshQueue(client, conversation!)
        } finally {
          way.done()
        }
      }),
    [client, conversation, go, model, others],
  )
  const busy = running || going
  const branching = useMemo<Branching>(
    () => ({
      busy,
      edit: (turn, text) => {
        const file_ids = turn.documents.flatMap(({ file_id }) => (file_id === null ? [] : [file_id]))
        return ask(async () => {
          // Of a message that was sent a moment ago only the server knows what it follows.
          const { parent_run_id } = await api.turn(turn.id)
          return { text, file_ids, parent_message_id: parent_run_id }
        })
      },
      again: (turn) => void ask(async () => ({ regenerate: turn.id })).then(setProblem),
      go: (turn, run) =>
        void go(() => api.prefer(turn, { ...(run === undefined ? {} : { run_id: run }), latest: true })).then(setProblem),
      stop: (run) => void api.stopRun(run).catch((error: unknown) => setProblem(explain(error))),
    }),
    [ask, busy, go],
  )
  /** Whether the path that is shown is still the conversation's; if not it is looked at again, and said. */
  const stands = async (): Promise<boolean> => {
    const newest = turns.at(-1)
    if (conversation === null || running || newest === undefined) return true
    try {
      const { head, head_run_id } = await api.conversation(conversation)
      const same = head === newest.id && (newest.runs.length < 2 || head_run_id === newest.run_id)
      if (same || (await isBehind(conversation, newest))) return true
    } catch {
      return true // Sending it says what is wrong.
    }
    path.mine()
    await look()
    setProblem({ ...wentElsewhere, hint: `${wentElsewhere.hint} Your message was not sent: send it again if it belongs here.` })
    return false
  }
  return { branching, problem, forget: () => setProblem(null), stands }
}

const notSaved = {
  message: 'What was chosen for the next message could not be saved.',
  hint: 'Choose it again, then repeat.',
}

/** Whether the conversation only went on from what is shown here. */
async function isBehind(conversation: string, newest: ShownTurn): Promise<boolean> {
  const { data } = await api.turns(conversation)
  const found = data.find((turn) => turn.id === newest.id)
  return found !== undefined && (newest.runs.length < 2 || found.run_id === newest.run_id)
}

/** Notices that the newest turn that was shown is not on the path any more, though nobody here left it. */
function usePath(conversation: string | null, turns: ShownTurn[], going: boolean, tell: (problem: Problem | null) => void) {
  const shown = useRef<{ conversation: string | null; newest: string | null }>({ conversation, newest: null })
  const mine = useRef(false)
  useEffect(() => {
    const before = shown.current
    const newest = turns.at(-1)?.id ?? null
    if (before.conversation !== conversation) {
      mine.current = false
      tell(null)
    } else if (before.newest !== null && newest !== null && !turns.some((turn) => turn.id === before.newest)) {
      if (!mine.current) tell(wentElsewhere)
    }
    if (before.newest !== newest) mine.current = false
    shown.current = { conversation, newest }
  }, [conversation, turns, tell])
  useEffect(() => {
    if (!going) mine.current = false
  }, [going])
  return useMemo(
    () => ({
      mine: () => {
        mine.current = true
      },
      others: () => {
        mine.current = false
      },
    }),
    [],
  )
}

/** The conversation stands elsewhere: ask again for everything that hangs on its path. */
async function refreshPath(client: QueryClient, conversation: string): Promise<void> {
  refreshTold(client, conversation)
  await client.invalidateQueries({ queryKey: keys.turns(conversation) })
}
