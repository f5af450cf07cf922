/** Restricted access as the owner of a base sees it: what readers would be told, and what they asked. */

import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { body, json, query } from './api.ts'
import type { ListOf, RestrictedPreview, RestrictedUse } from './objects.ts'

/** What would be told on a question; `text` null is nothing yet. */
export const usePreview = (base: string, text: string | null) =>
  useQuery({
    queryKey: ['knowledge-bases', base, 'restricted-preview', text ?? ''],
    queryFn: () => json<RestrictedPreview>(`/knowledge-bases/${base}/restricted-preview`, body('POST', { query: text })),
    enabled: text !== null,
    retry: false,
    staleTime: 0,
    gcTime: 0,
  })

/** Who asked a base what, newest first. */
export const useUses = (base: string) =>
  useInfiniteQuery({
    queryKey: ['knowledge-bases', base, 'restricted-uses'],
    queryFn: ({ pageParam }) => json<ListOf<RestrictedUse>>(`/knowledge-bases/${base}/restricted-uses${query({ limit: 20, after: pageParam })}`),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => (last.has_more ? (last.last_id ?? undefined) : undefined),
    staleTime: 0,
  })

const reasons: Record<string, string> = {
  answered: 'answered',
  partly_answered: 'answered in part',
  not_in_documents: 'not in the documents',
  too_revealing: 'the second model found it too revealing',
  off_topic: 'not what the base is about',
  no_model: 'no second model is configured (LAMELLA_RESTRICTED_MODEL)',
  timed_out: 'the second model took too long',
  model_failed: 'the second model could not be asked',
  bad_output: 'the second model gave no usable answer',
  low_confidence: 'the second model was not sure',
  guarded: 'the guard let nothing pass',
  no_documents: 'there are no documents',
  still_indexing: 'documents are still being indexed',
  access_changed: 'access was changed meanwhile',
  failed: 'it failed',
}

/** A reason in words. */
export const reasonText = (reason: string) => reasons[reason] ?? reason
