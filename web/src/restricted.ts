/** Restricted access as the owner of a base sees it: what is missing, which words are names, and what went out. */

import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { body, items, json, query } from './api.ts'
import type {
  DisclosedPassage,
  KnowledgeDocument,
  ListOf,
  Readiness,
  RestrictedPreviews,
  RestrictedReader,
  RestrictedTerms,
  RestrictedTermsBody,
  RestrictedUse,
} from './objects.ts'

/** Questions of one preview, as the server takes them. */
export const MOST_QUESTIONS = 50

/** Days whose answers are added up for each reader. */
export const DAYS = 30

const path = (base: string) => `/knowledge-bases/${base}`
const key = (base: string, ...rest: string[]) => ['knowledge-bases', base, ...rest] as const

/** What a base lacks for restricted readers. */
export const useReadiness = (base: string) =>
  useQuery({
    queryKey: key(base, 'readiness'),
    queryFn: () => json<Readiness>(`${path(base)}/readiness`),
    retry: false,
    staleTime: 0,
  })

const LOOK_MS = 2_000

/** What the server lacks for restricted readers: known at once, because no document is read for it. */
export const useMissing = (base: string) =>
  useQuery({
    queryKey: key(base, 'missing'),
    queryFn: () => json<Readiness>(`${path(base)}/readiness${query({ documents: 'false' })}`),
    retry: false,
    staleTime: 0,
  })

/** The names of a base; looked at again until they are found. */
export const useTerms = (base: string) =>
  useQuery({
    queryKey: key(base, 'restricted-terms'),
    queryFn: () => json<RestrictedTerms>(`${path(base)}/restricted-terms`),
    refetchInterval: ({ state }) => (state.data?.state === 'indexing' ? LOOK_MS : false),
    staleTime: 0,
  })

export function useSetTerms(base: string) {
  const client = useQueryClient()
  return useMutation({
    mutationFn: (value: RestrictedTermsBody) => json<RestrictedTerms>(`${path(base)}/restricted-terms`, body('PUT', value)),
    onSuccess: (terms) => {
      client.setQueryData(key(base, 'restricted-terms'), terms)
      void client.invalidateQueries({ queryKey: key(base, 'readiness') })
    },
  })
}

/** What would be told on several questions. */
export const usePreviews = (base: string) =>
  useMutation({
    mutationFn: (queries: string[]) => json<RestrictedPreviews>(`${path(base)}/restricted-previews`, body('POST', { queries })),
  })

/** Two previews as one, with the shares of all. */
export function together(before: RestrictedPreviews | null, more: RestrictedPreviews): RestrictedPreviews {
  const data = [...(before?.data ?? []), ...more.data]
  const said = data.flatMap((one) => one.sentences).filter((one) => one.said !== '')
  const share = (part: number, of: number) => (of === 0 ? 0 : part / of)
  const refused = data.filter((one) => one.safe.decision === 'refuse').length
  const cut = said.filter((one) => one.released === '').length
  return { ...more, data, refused: share(refused, data.length), cut: share(cut, said.length) }
}

/** A text as questions: one on each line, each once. */
export const questionsIn = (text: string): string[] => [
  ...new Set(text.split('\n').map((line) => line.trim()).filter(Boolean)),
]

/** Who asked a base what, newest first. */
export const useUses = (base: string) =>
  useInfiniteQuery({
    queryKey: key(base, 'restricted-uses'),
    queryFn: ({ pageParam }) => json<ListOf<RestrictedUse>>(`${path(base)}/restricted-uses${query({ limit: 20, after: pageParam })}`),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => (last.has_more ? (last.last_id ?? undefined) : undefined),
    staleTime: 0,
  })

export const useReaders = (base: string) =>
  useQuery({
    queryKey: key(base, 'restricted-readers'),
    queryFn: async () => items(await json<ListOf<RestrictedReader>>(`${path(base)}/restricted-readers${query({ days: DAYS })}`)),
    staleTime: 0,
  })

/** The passages of a document of which something went out, and whether earlier answers are left out. */
export const useDisclosed = (base: string, document: string) =>
  useQuery({
    queryKey: key(base, 'disclosed', document),
    queryFn: () => json<ListOf<DisclosedPassage>>(`${path(base)}/documents/${document}/disclosed`),
    retry: false,
    staleTime: 0,
  })

export const useDocument = (base: string, document: string) =>
  useQuery({
    queryKey: key(base, 'document', document),
    queryFn: () => json<KnowledgeDocument>(`${path(base)}/documents/${document}`),
    retry: false,
  })

/** The documents of a use: `doc_3:1200` is a place in `doc_3`. */
export const documentsOf = (use: RestrictedUse): string[] => [
  ...new Set(use.passage_ids.map((id) => id.slice(0, id.lastIndexOf(':'))).filter(Boolean)),
]

export type TermState = 'found' | 'confirmed' | 'allowed'

export interface TermRow {
  term: string
  /** Of words that only the owner knows there is none. */
  kind: 'word' | 'phrase' | null
  language: string | null
  count: number
  state: TermState
}

const plain = (term: string) => term.toLowerCase()

/** Every name of a base once: what its owner says of it comes before what was found. */
export function rowsOf({ found, confirmed, allowed }: RestrictedTerms): TermRow[] {
  const said = new Map<string, TermState>([
    ...confirmed.map((term) => [plain(term), 'confirmed'] as const),
    ...allowed.map((term) => [plain(term), 'allowed'] as const),
  ])
  const known = new Set(found.map((one) => plain(one.term)))
  const own = (terms: readonly string[], state: TermState): TermRow[] =>
    terms.filter((term) => !known.has(plain(term))).map((term) => ({ term, kind: null, language: null, count: 0, state }))
  return [
    ...own(confirmed, 'confirmed'),
    ...own(allowed, 'allowed'),
    ...found.map((one) => ({ ...one, state: said.get(plain(one.term)) ?? ('found' as const) })),
  ]
}

/** What is sent so that `term` has this state: confirmed, allowed, or as it was found. */
export function withTerm(terms: RestrictedTerms, term: string, state: TermState): Required<RestrictedTermsBody> {
  const without = (words: readonly string[]) => words.filter((word) => plain(word) !== plain(term))
  return {
    confirmed: [...without(terms.confirmed), ...(state === 'confirmed' ? [term] : [])],
    allowed: [...without(terms.allowed), ...(state === 'allowed' ? [term] : [])],
  }
}

const reasons: Record<string, string> = {
  answered: 'answered',
  partly_answered: 'answered in part',
  not_in_documents: 'not in the documents',
  too_revealing: 'the second model found it too revealing',
  off_topic: 'not what the base is about',
  no_model: 'no second model is configured (LAMELLA_RESTRICTED_MODEL)',
  no_word_lists: 'the word lists are not installed (lamella[restricted])',
  language_not_supported: 'the guard does not know the language',
  timed_out: 'the second model took too long',
  model_failed: 'the second model could not be asked',
  bad_output: 'the second model gave no usable answer',
  low_confidence: 'the second model was not sure',
  guarded: 'the guard let nothing pass',
  no_documents: 'there are no documents',
  still_indexing: 'documents are still being indexed',
  daily_limit: 'the reader got as many answers as a day allows',
  access_changed: 'access was changed meanwhile',
  failed: 'it failed',
}

/** A reason in words. */
export const reasonText = (reason: string) => reasons[reason] ?? reason

const cuts: Record<string, string> = {
  character: 'a character that no word of the language has',
  figure: 'a figure or date',
  unlisted: 'a word that no word list has',
  name: 'a name',
  title: 'two words of a title, a heading or a name',
  run: 'too much of one sentence of a passage',
  spelling: 'a word that is spelled out',
  disguised: 'a hidden word in initials or halves',
  covered: 'too much of one sentence, together with earlier answers',
}

/** Why a sentence was cut, in words. */
export const cutText = (kinds: readonly string[]) => kinds.map((kind) => cuts[kind] ?? kind).join('; ')

const alerts: Record<string, string> = {
  daily_limit: 'reached a daily limit',
  covered: 'asked for more of a sentence than may go out',
  name: 'sentences with names were cut',
}

export const alertText = (alert: string) => alerts[alert] ?? alert

/** A text that was told in part or not at all, with what to do about it. */
export function adviceFor({ field, told }: { field: string; told: string }): string {
  if (field === 'name') return 'Readers see “Knowledge base with restricted access”. Give it a general name.'
  if (field === 'keyword') return 'Readers are not told this keyword. Use a more general word.'
  return told === '' ? 'Readers see nothing of it. Say it in general words.' : 'Readers see the rest of it. Say it in general words.'
}

/** What an answer tells at most, as a number of forms; a field of one choice is not finished. */
export const MOST_ANSWERS = 2 ** 20

export const answersOf = (form: readonly { choices: readonly string[] }[]) =>
  form.reduce((product, { choices }) => product * Math.max(1, choices.length), 1)
