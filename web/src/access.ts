/** Who asks and who may read what: login, keys, users, groups, knowledge bases and the grants on them. */

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { body, everything, items, json, newKey, withKey } from './api.ts'
import { unchoose } from './drafts.ts'
import type { Grant, GrantLevel, InvitedUser, IssuedKey, Key, KnowledgeBase, Login, Me, ListOf, Named, NewBase } from './objects.ts'
import { required } from './resources.ts'

/** A base as its form has it. */
export type BaseValue = Required<NewBase>

export const accessKeys = {
  me: ['me'] as const,
  login: ['login'] as const,
  keys: ['keys'] as const,
  names: ['names'] as const,
  bases: ['knowledge-bases'] as const,
  grants: (base: string) => ['knowledge-bases', base, 'grants'] as const,
}

export const useMe = () =>
  useQuery({ queryKey: accessKeys.me, queryFn: () => json<Me>('/me'), staleTime: Infinity })

export const useLoginInfo = () => useQuery({ queryKey: accessKeys.login, queryFn: () => json<Login>('/login') })

export const useKeys = () => useQuery({ queryKey: accessKeys.keys, queryFn: () => everything<Key>('/keys') })

export const useBases = () =>
  useQuery({ queryKey: accessKeys.bases, queryFn: () => everything<KnowledgeBase>('/knowledge-bases') })

export const useGrants = (base: string) =>
  useQuery({
    queryKey: accessKeys.grants(base),
    queryFn: async () => items(await json<ListOf<Grant>>(`/knowledge-bases/${base}/grants`)),
  })

/** Whom access can be granted: users and groups by name. */
export const useNames = () =>
  useQuery({
    queryKey: accessKeys.names,
    queryFn: async () => [...(await everything<Named>('/groups')), ...(await everything<Named>('/users'))],
  })

export function useLogIn() {
  const client = useQueryClient()
  return useMutation({
    mutationFn: (key: string) => json<Me>('/login', body('POST', { key: key.trim() })),
    // Whatever was kept was somebody else's, or nobody's.
    onSuccess: () => client.resetQueries(),
  })
}

export function useLogOut() {
  return useMutation({
    mutationFn: () => json<null>('/logout', { method: 'POST' }),
    onSuccess: () => location.assign('/'),
  })
}

export const useSetUp = () =>
  useMutation({
    mutationFn: (value: { name: string; token?: string }) => json<InvitedUser>('/setup', body('POST', value)),
  })

export const useCreateKey = () =>
  useChange(accessKeys.keys, async (value: { name: string }) =>
    json<IssuedKey>('/keys', body('POST', required(value, 'name', 'The key has no name.', 'Enter a name.'))),
  )

export const useSetKey = () =>
  useChange(accessKeys.keys, ({ id, ...options }: { id: string } & Partial<Pick<Key, 'storage' | 'context'>>) =>
    json<Key>(`/keys/${id}`, body('PATCH', options)),
  )

export const useRevokeKey = () =>
  useChange(accessKeys.keys, (id: string) => json<Key>(`/keys/${id}`, { method: 'DELETE' }))

export const useSaveBase = (id: string | null) =>
  useChange(accessKeys.bases, async (value: Partial<BaseValue>) => {
    required(value, 'name', 'The knowledge base has no name.', 'Give it one: you choose it by that name.')
    return id === null
      ? json<KnowledgeBase>('/knowledge-bases', withKey(body('POST', value), newKey()))
      : json<KnowledgeBase>(`/knowledge-bases/${id}`, body('PATCH', value))
  })

export const useRemoveBase = () =>
  useChange(accessKeys.bases, async (id: string) => {
    await json<null>(`/knowledge-bases/${id}`, { method: 'DELETE' })
    unchoose(id)
  })

/** Give somebody a level, or take their grant away with null. */
export const useGrant = (base: string) =>
  useChange(accessKeys.grants(base), ({ id, level }: { id: string; level: GrantLevel | null }) => {
    const path = `/knowledge-bases/${base}/grants/${id}`
    return level === null
      ? json<Grant | null>(path, { method: 'DELETE' })
      : json<Grant | null>(path, body('PUT', { level }))
  })

/** Something that changes a list: done when the list is here again. */
function useChange<Value, Answer>(queryKey: readonly string[], change: (value: Value) => Promise<Answer>) {
  const client = useQueryClient()
  return useMutation({ mutationFn: change, onSuccess: () => client.invalidateQueries({ queryKey }) })
}
