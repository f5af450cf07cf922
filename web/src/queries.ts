/** What the page keeps of the server's answers, and when it asks again. */

import type { ShownTurn } from './turn.ts'
import {
  type InfiniteData,
  keepPreviousData,
  type QueryClient,
  useInfiniteQuery,
  useIsMutating,
  useMutation,
  useQueries,
  useQuery,
  useQueryClient,
} from '@tanstack/react-query'
import { useEffect } from 'react'
import { api, type Conversation, type ConversationPatch, type ListOf, type Notice } from './api.ts'
import type { Sent } from './drafts.ts'

export const keys = {
  conversations: ['conversations'] as const,
  everyConversation: ['conversation'] as const,
  conversation: (id: string) => ['conversation', id] as const,
  turns: (id: string) => ['turns', id] as const,
  context: (id: string) => ['context', id] as const,
  queue: (id: string) => ['queue', id] as const,
  told: (id: string) => ['told', id] as const,
  sessions: (id: string) => ['sessions', id] as const,
  efforts: (id: string) => ['efforts', id] as const,
  requests: (turn: string) => ['requests', turn] as const,
  lines: ['lines'] as const,
  everyLine: ['line'] as const,
  line: (id: string) => ['line', id] as const,
  changing: ['change'] as const,
}

export const useStatus = () => useQuery({ queryKey: ['status'], queryFn: api.status, staleTime: 60_000 })

/** The models to choose from, and one that is served without being listed: any name can be set over the API. */
export const useModels = (also = '') =>
  useQuery({ queryKey: ['models', also], queryFn: () => api.models(also), staleTime: 60_000 })

export const useConversations = () =>
  useInfiniteQuery({
    queryKey: keys.conversations,
    queryFn: ({ pageParam }) => api.conversations(pageParam),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: next,
    refetchInterval: (list) => untilTitled(list.state.data?.pages[0]?.data ?? []),
  })

export const useConversation = (id: string | null) =>
  useQuery({
    queryKey: keys.conversation(id ?? ''),
    queryFn: () => api.conversation(id!),
    enabled: id !== null,
    refetchInterval: (one) => untilTitled(one.state.data ? [one.state.data] : []),
  })

/** A title comes a moment after the first answer: milliseconds until asking for it again, while it may still come. */
function untilTitled(conversations: Conversation[]): number | false {
  const soon = (one: Conversation) =>
    one.titled_by === 'words' && one.running_turn === null && Date.now() - Date.parse(one.updated_at) < 20_000
  return conversations.some(soon) && 2_000
}

export const useTurnList = (id: string | null) =>
  useInfiniteQuery({
    queryKey: keys.turns(id ?? ''),
    queryFn: ({ pageParam }) => api.turns(id!, pageParam),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: next,
    enabled: id !== null,
  })

/** The gauge; asked again while a compaction runs, so that its end is heard of. */
export const useGauge = (id: string | null) =>
  useQuery({
    queryKey: keys.context(id ?? ''),
    queryFn: () => api.context(id!),
    enabled: id !== null,
    // What another window does, such as taking a compaction back, is seen without a reload.
    refetchInterval: ({ state }) => (state.data?.compacting ? 1500 : 5000),
  })

/** The thinking efforts to choose from; what a change costs is another with every request. */
export const useEfforts = (id: string | null, request: string | null) =>
  useQuery({
    queryKey: [...keys.efforts(id ?? ''), request],
    queryFn: () => api.efforts(id!),
    enabled: id !== null,
    placeholderData: keepPreviousData,
  })

/** What was said that fits some words, in one conversation or in all; asked for once they are given. */
export const useSearch = (id: string | undefined, words: string) =>
  useQuery({
    queryKey: ['search', id, words],
    queryFn: ({ signal }) => api.search(id, words, signal),
    enabled: words !== '',
    placeholderData: words === '' ? undefined : keepPreviousData,
  })

/** The titles of conversations, in their order; "" until one is known. */
export function useTitles(ids: string[]): string[] {
  const client = useQueryClient()
  const listed = client.getQueryData<InfiniteData<ListOf<Conversation>>>(keys.conversations)?.pages.flatMap((page) => page.data)
  const asked = useQueries({
    queries: ids.map((id) => ({
      queryKey: keys.conversation(id),
      queryFn: () => api.conversation(id),
      enabled: !listed?.some((one) => one.id === id),
    })),
  })
  return ids.map((id, index) => (listed?.find((one) => one.id === id) ?? asked[index]?.data)?.title ?? '')
}

/** Go on from an earlier session. */
export function useResume(conversation: string) {
  const client = useQueryClient()
  return useMutation({
    mutationFn: api.resume,
    onSuccess: () => {
      refreshTold(client, conversation)
      for (const queryKey of [keys.turns(conversation), keys.context(conversation)]) void client.invalidateQueries({ queryKey })
    },
  })
}

/** Compact now. */
export function useCompact(conversation: string) {
  const client = useQueryClient()
  return useMutation({
    mutationFn: () => api.command(conversation, '/compact'),
    onSettled: () => refreshTold(client, conversation),
  })
}

/** Take a compaction back. Where that fails the page is behind: it looks again then, too. */
export function useUndo(conversation: string) {
  const client = useQueryClient()
  return useMutation({
    mutationFn: api.undo,
    onSettled: () => {
      refreshTold(client, conversation)
      void client.invalidateQueries({ queryKey: keys.turns(conversation) })
    },
  })
}

/** What waits; looked at again as long as something does, for other windows and the clock change it too. */
export const useQueue = (id: string | null) =>
  useQuery({
    queryKey: keys.queue(id ?? ''),
    queryFn: () => api.queue(id!),
    enabled: id !== null,
    refetchInterval: ({ state }) => (state.data?.length ? 1000 : false),
  })

export const useCommands = () => useQuery({ queryKey: ['commands'], queryFn: api.commands, staleTime: Infinity })

/** What a conversation shows beside its messages, the oldest first. */
export const useTold = (id: string | null) =>
  useQuery({
    queryKey: keys.told(id ?? ''),
    queryFn: async () => (await api.told(id!)).toReversed(),
    enabled: id !== null,
  })

/** Hear of what was told without being asked for, such as a compaction's end: the gauge knows the newest. */
export function useNews(id: string): void {
  const client = useQueryClient()
  const notice = useGauge(id).data?.notice ?? null
  useEffect(() => {
    const told = client.getQueryData<Notice[]>(keys.told(id))
    if (notice === null || told === undefined || told.at(-1)?.id === notice) return
    const changed = [keys.told(id), keys.sessions(id), keys.conversation(id)]
    for (const queryKey of changed) void client.invalidateQueries({ queryKey })
  }, [client, id, notice])
}

/** The sessions, asked again with every notice. */
export const useSessions = (id: string | null, newest: string | undefined) =>
  useQuery({
    queryKey: [...keys.sessions(id ?? ''), newest],
    queryFn: () => api.sessions(id!),
    enabled: id !== null,
    placeholderData: keepPreviousData,
  })

/** A turn that is not on the current path. */
export const useOneTurn = (turn: string | null) =>
  useQuery({ queryKey: ['turn', turn], queryFn: () => api.turn(turn!), enabled: turn !== null })

export const useRequests = (turn: string | null) =>
  useQuery({ queryKey: keys.requests(turn ?? ''), queryFn: () => api.requests(turn!), enabled: turn !== null })

export const useMap = (request: string | null) =>
  useQuery({ queryKey: ['map', request], queryFn: () => api.map(request!), enabled: request !== null })

export const useFileText = (file: string | null) =>
  useQuery({
    queryKey: ['file-text', file],
    queryFn: () => api.fileText(file!),
    enabled: file !== null,
    staleTime: Infinity,
  })

/** Where the next page of a list begins; undefined after the last. */
export function next<Item>(page: ListOf<Item>): string | undefined {
  return page.has_more ? (page.last_id ?? undefined) : undefined
}

/** Turns of all loaded pages, oldest first. */
export function inOrder(data: InfiniteData<ListOf<ShownTurn>> | undefined): ShownTurn[] {
  return (data?.pages.flatMap((page) => page.data) ?? []).toReversed()
}

/** Change a conversation; what is chosen for it counts from the next message on. */
export function useChange() {
  const client = useQueryClient()
  return useMutation({
    mutationKey: keys.changing,
    mutationFn: ({ id, ...value }: { id: string } & ConversationPatch) => api.change(id, value),
    onSuccess: (changed) => {
      client.setQueryData(keys.conversation(changed.id), changed)
      void client.invalidateQueries({ queryKey: keys.efforts(changed.id) })
      void client.invalidateQueries({ queryKey: keys.conversations })
    },
  })
}

/** Wait no longer for more messages. */
export function useFlush(conversation: string | null): () => void {
  const client = useQueryClient()
  const { mutate } = useMutation({
    mutationFn: () => api.flush(conversation!),
    onSettled: () => refreshQueue(client, conversation!),
  })
  return () => {
    if (conversation !== null) mutate()
  }
}

/** Whether a change is on its way. */
export const useChanging = () => useIsMutating({ mutationKey: keys.changing }) > 0

/** Wait for changes on their way: a message that overtakes one would be sent with what was chosen before.
 *  False when one was refused. */
export function changesSaved(client: QueryClient): Promise<boolean> {
  const cache = client.getMutationCache()
  const running = cache.findAll({ mutationKey: keys.changing, status: 'pending' })
  if (running.length === 0) return Promise.resolve(true)
  return new Promise((resolve) => {
    const stop = cache.subscribe(() => {
      if (running.some((one) => one.state.status === 'pending')) return
      stop()
      resolve(running.every((one) => one.state.status === 'success'))
    })
  })
}

/** Go on with a client's conversation in one of this server. */
export function useFork() {
  const client = useQueryClient()
  return useMutation({
    mutationFn: ({ line, turn }: { line: string; turn?: string }) => api.fork(line, turn),
    onSuccess: () => client.invalidateQueries({ queryKey: keys.conversations }),
  })
}

export function useRemove() {
  const client = useQueryClient()
  return useMutation({
    mutationFn: api.remove,
    onSuccess: (_, id) => {
      client.setQueryData<InfiniteData<ListOf<Conversation>>>(keys.conversations, (old) =>
        old && { ...old, pages: old.pages.map((page) => ({ ...page, data: page.data.filter((one) => one.id !== id) })) },
      )
      for (const queryKey of [keys.conversations, keys.lines]) void client.invalidateQueries({ queryKey })
      for (const key of [keys.conversation(id), keys.line(id), keys.turns(id), keys.context(id)]) client.removeQueries({ queryKey: key })
    },
  })
}

/** Show a turn that has just begun, before the server's list has it. */
export function addTurn(client: QueryClient, sent: Sent): void {
  const { started } = sent
  const turn: ShownTurn = {
    id: started.turn_id,
    parent_id: null,
    parent_run_id: null,
    runs: [],
    run_id: null,
    siblings: [started.turn_id],
    status: 'running',
    model: '',
    text: sent.text,
    results: [],
    sent_at: started.sent_at,
    timezone: '',
    documents: sent.files.map((file) => ({
      document: started.documents.find((one) => one.file_id === file.id)?.document ?? null,
      file_id: file.id,
      title: file.name,
      media_type: file.media_type,
      size: file.size,
      tokens: file.tokens,
      reason: null,
    })),
    error: null,
    usage: null,
    cost: null,
    started_at: started.sent_at,
    finished_at: null,
    expired: null,
  }
  client.setQueryData<InfiniteData<ListOf<ShownTurn>, string | undefined>>(keys.turns(sent.conversation), (old) => {
    const first = old?.pages[0]
    if (!old || !first) {
      const only = { object: 'list' as const, data: [turn], first_id: turn.id, last_id: turn.id, has_more: false }
      return { pages: [only], pageParams: [undefined] }
    }
    if (first.data.some((one) => one.id === turn.id)) return old
    return { ...old, pages: [{ ...first, data: [turn, ...first.data] }, ...old.pages.slice(1)] }
  })
  // The list too: one that was asked for before the turn began, and comes after it, would take it away again.
  for (const queryKey of [keys.turns(sent.conversation), keys.conversations, keys.conversation(sent.conversation)])
    void client.invalidateQueries({ queryKey })
}

/** A turn ended: ask again for everything that it changed. */
export function refresh(client: QueryClient, conversation: string, turn: string): void {
  const changed = [
    keys.turns(conversation),
    keys.context(conversation),
    keys.conversation(conversation),
    keys.conversations,
    keys.requests(turn),
    keys.told(conversation),
    keys.sessions(conversation),
  ]
  for (const queryKey of changed) void client.invalidateQueries({ queryKey })
}

/** Something came to the queue or left it: a turn may have begun, a command may have run. */
export function refreshQueue(client: QueryClient, conversation: string): void {
  const changed = [keys.queue(conversation), keys.turns(conversation)]
  for (const queryKey of changed) void client.invalidateQueries({ queryKey })
  refreshTold(client, conversation)
}

/** A command was answered: it may have changed where the conversation stands. */
export function refreshTold(client: QueryClient, conversation: string): void {
  const changed = [
    keys.told(conversation),
    keys.sessions(conversation),
    keys.conversation(conversation),
    keys.context(conversation),
  ]
  for (const queryKey of [...changed, keys.conversations]) void client.invalidateQueries({ queryKey })
}
