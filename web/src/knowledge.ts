/** Knowledge bases from the inside: documents and how far each is, search in them, and who searches them. */

import { keepPreviousData, useInfiniteQuery, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import { body, explain, items, json, newKey, query, sendFile, type Upload } from './api.ts'
import { bytes } from './format.ts'
import type { DocumentList, KnowledgeDocument, KnowledgeSearch, ListOf, Searcher } from './objects.ts'
import { keys } from './queries.ts'

export const knowledgeKeys = {
  documents: (base: string) => ['knowledge-bases', base, 'documents'] as const,
  searchers: (base: string) => ['knowledge-bases', base, 'searchers'] as const,
  found: (base: string, text: string) => ['knowledge-bases', base, 'found', text] as const,
  bound: (subject: string) => ['knowledge-bases', 'bound', subject] as const,
}

const PAGE = 50
const LOOK_MS = 1_000

/** The documents of a base, newest first; looked at again as long as one is not finished. */
export function useDocuments(base: string) {
  return useInfiniteQuery({
    queryKey: knowledgeKeys.documents(base),
    queryFn: ({ pageParam }) =>
      json<DocumentList>(`/knowledge-bases/${base}/documents${query({ limit: PAGE, after: pageParam })}`),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => (last.has_more ? (last.last_id ?? undefined) : undefined),
    refetchInterval: ({ state }) => ((state.data?.pages[0]?.totals.unfinished ?? 0) > 0 ? LOOK_MS : false),
  })
}

/** What one's own search of a base finds; `text` null is nothing yet. */
export const useFound = (base: string, text: string | null) =>
  useQuery({
    queryKey: knowledgeKeys.found(base, text ?? ''),
    queryFn: () => json<KnowledgeSearch>('/knowledge-bases/search', body('POST', { query: text, knowledge_base_ids: [base] })),
    enabled: text !== null,
    placeholderData: keepPreviousData,
    staleTime: 0,
    gcTime: 0,
  })

export const useSearchers = (base: string) =>
  useQuery({
    queryKey: knowledgeKeys.searchers(base),
    queryFn: async () => items(await json<ListOf<Searcher>>(`/knowledge-bases/${base}/searchers`)),
    staleTime: 0,
  })

export type Subject = { kind: 'agents' | 'conversations'; id: string }

interface Bound {
  knowledge_base_ids: string[]
}

/** The bases that an agent or a conversation searches. */
export const useBound = (subject: Subject | null) =>
  useQuery({
    queryKey: knowledgeKeys.bound(subject?.id ?? ''),
    queryFn: async () => (await json<Bound>(`/${subject!.kind}/${subject!.id}/knowledge-bases`)).knowledge_base_ids,
    enabled: subject !== null,
    // A form begins with what holds now, not with what held when it was last open.
    staleTime: 0,
    gcTime: 0,
  })

export const bind = (subject: Subject, bases: readonly string[]) =>
  json<Bound>(`/${subject.kind}/${subject.id}/knowledge-bases`, body('PUT', { knowledge_base_ids: bases }))

/** Let an agent or a conversation search these bases. A message waits for it. */
export function useBind() {
  const client = useQueryClient()
  return useMutation({
    mutationKey: keys.changing,
    mutationFn: ({ subject, bases }: { subject: Subject; bases: readonly string[] }) => bind(subject, bases),
    onSuccess: ({ knowledge_base_ids }, { subject }) => {
      client.setQueryData(knowledgeKeys.bound(subject.id), knowledge_base_ids)
      void client.invalidateQueries({ predicate: ({ queryKey }) => queryKey[2] === 'searchers' })
    },
  })
}

/** Read a document once more, or remove it. */
export function useDocumentVerbs(base: string) {
  const client = useQueryClient()
  const path = (id: string) => `/knowledge-bases/${base}/documents/${id}`
  const onSettled = () => client.invalidateQueries({ queryKey: knowledgeKeys.documents(base) })
  const again = useMutation({ mutationFn: (id: string) => json(`${path(id)}/again`, { method: 'POST' }), onSettled })
  const remove = useMutation({ mutationFn: (id: string) => json(path(id), { method: 'DELETE' }), onSettled })
  return { again, remove }
}

/** A file on its way into a base; it leaves the list when the server has it. */
export interface Sending {
  key: string
  name: string
  size: number
  share: number
  /** Why the server did not take it. */
  problem: string | null
}

/** Uploads at once: a folder of ten thousand files is sent piece by piece. */
const AT_ONCE = 3

interface Waiting {
  key: string
  file: File
  /** The document that it replaces. */
  document: string | null
}

/** Sends files into a base, a few at a time. */
export function useSending(base: string, limit: number | undefined) {
  const client = useQueryClient()
  const [rows, setRows] = useState<Sending[]>([])
  const waiting = useRef<Waiting[]>([])
  const running = useRef(new Map<string, Upload<KnowledgeDocument>>())
  useEffect(() => {
    const uploads = running.current
    const queue = waiting
    return () => {
      queue.current = []
      uploads.forEach((upload) => upload.cancel())
    }
  }, [])

  const change = (key: string, patch: Partial<Sending>) =>
    setRows((old) => old.map((row) => (row.key === key ? { ...row, ...patch } : row)))
  const forget = (key: string) => setRows((old) => old.filter((row) => row.key !== key))

  const next = () => {
    if (running.current.size >= AT_ONCE) return
    const one = waiting.current.shift()
    if (one === undefined) return
    const path = `/knowledge-bases/${base}/documents${one.document === null ? '' : `/${one.document}/content`}`
    const method = one.document === null ? 'POST' : 'PUT'
    const upload = sendFile<KnowledgeDocument>(method, path, one.file, (share) => change(one.key, { share }))
    running.current.set(one.key, upload)
    upload.done
      .then(
        () => forget(one.key),
        (error: unknown) => {
          const { message, hint } = explain(error)
          change(one.key, { problem: [message, hint].filter(Boolean).join(' ') })
        },
      )
      .finally(() => {
        running.current.delete(one.key)
        if (running.current.size === 0 || waiting.current.length % 10 === 0)
          void client.invalidateQueries({ queryKey: knowledgeKeys.documents(base) })
        next()
      })
    next()
  }
  const add = (files: Iterable<File>, document: string | null = null) => {
    const added: Sending[] = []
    for (const file of files) {
      const key = newKey()
      const tooLarge = limit !== undefined && file.size > limit
      const problem = tooLarge ? `It is larger than the ${bytes(limit)} that this server takes.` : null
      added.push({ key, name: file.name, size: file.size, share: 0, problem })
      if (!tooLarge) waiting.current.push({ key, file, document })
    }
    setRows((old) => [...old, ...added])
    next()
  }
  return { rows, add, forget }
}

/** What the embedder is called on the page: the one that knows spelling and no meaning is "lexical". */
export function embedderName(model: string): string {
  return model.startsWith('lexical-') ? 'lexical' : model
}

/** How far a document is, in words. */
export function progressOf(document: KnowledgeDocument): string {
  switch (document.state) {
    case 'waiting':
      return 'waits to be read'
    case 'reading':
      return 'is read…'
    case 'indexing':
      return 'is cut into passages…'
    case 'embedding':
      return `${document.embedded} of ${document.passages} passages have vectors`
    case 'ready':
      return document.passages === 1 ? 'ready, 1 passage' : `ready, ${document.passages} passages`
    case 'failed':
      return document.searchable_version === null ? 'could not be read' : 'the new version could not be read; the one before is found'
  }
}
