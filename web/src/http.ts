/** Requests to the server. Every failure becomes an `ApiError` with a message and, where there is one, a hint. */

import type { ErrorBody, ListOf, UploadedFile } from './objects.ts'

/** What is wrong, as the server says it or as this page does. */
export type Problem = Pick<ErrorBody, 'message'> & Partial<ErrorBody>

export const ROOT = '/api/v1'

export class ApiError extends Error {
  readonly status: number
  readonly code: string
  readonly hint: string | null
  /** The field of the body that was wrong. */
  readonly param: string | null

  constructor(status: number, body: Problem) {
    super(body.message)
    this.name = 'ApiError'
    this.status = status
    this.code = body.code ?? 'unknown'
    this.hint = body.hint ?? null
    this.param = body.param ?? null
  }
}

/** What any thrown thing says to a user. */
export function explain(error: unknown): { message: string; hint: string | null } {
  if (error instanceof ApiError) return { message: error.message, hint: error.hint }
  return { message: 'Something went wrong in this page.', hint: 'Reload it. What was sent is kept by the server.' }
}

/** Lists come as an array or as a page object: take the items of either. */
export function items<Item>(list: Item[] | ListOf<Item>): Item[] {
  return Array.isArray(list) ? list : list.data
}

/** A request that fails with an `ApiError`, also when the server cannot be reached. */
export async function send(path: string, init: RequestInit = {}): Promise<Response> {
  let answer: Response
  try {
    answer = await fetch(ROOT + path, init)
  } catch (error) {
    if (init.signal?.aborted) throw error
    throw new ApiError(0, unreachable)
  }
  if (!answer.ok) throw new ApiError(answer.status, errorBody(answer.status, await answer.text().catch(() => '')))
  return answer
}

export const unreachable: Problem = {
  message: 'The server cannot be reached.',
  code: 'unreachable',
  hint: 'Check that it is running, then try again.',
}

/** The error object of an answer, or one made from the status when the answer holds none. */
export function errorBody(status: number, text: string): Problem {
  try {
    const body = JSON.parse(text) as { error?: Problem }
    if (typeof body.error?.message === 'string') return body.error
  } catch {
    // not JSON: a proxy answered, or nobody did
  }
  return { message: `The server answered with status ${status}.`, code: 'unknown', hint: null }
}

/** A random key for one attempt. `crypto.randomUUID` exists on secure addresses only, and a home network is none. */
export function newKey(): string {
  const random = crypto.getRandomValues(new Uint8Array(16))
  return Array.from(random, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

export async function json<Answer>(path: string, init: RequestInit = {}): Promise<Answer> {
  const answer = await send(path, init)
  return (answer.status === 204 ? null : await answer.json()) as Answer
}

export function body(method: string, value: unknown): RequestInit {
  return { method, body: JSON.stringify(value), headers: { 'Content-Type': 'application/json' } }
}

export function query(values: Record<string, string | number | undefined>): string {
  const set = Object.entries(values).filter(([, value]) => value !== undefined)
  return set.length === 0 ? '' : `?${new URLSearchParams(set.map(([key, value]) => [key, String(value)]))}`
}

/** A list to its end, page by page. */
export async function everything<Item>(path: string): Promise<Item[]> {
  const all: Item[] = []
  for (let after: string | undefined; ; ) {
    const page = await json<Item[] | ListOf<Item>>(path + query({ limit: 100, after }))
    if (Array.isArray(page)) return page
    all.push(...page.data)
    if (!page.has_more || !page.last_id) return all
    after = page.last_id
  }
}

export function withKey(init: RequestInit, key: string): RequestInit {
  return { ...init, headers: { ...(init.headers as Record<string, string>), 'Idempotency-Key': key } }
}

export interface Upload<Answer = UploadedFile> {
  done: Promise<Answer>
  cancel: () => void
}

/** Send a file; `progress` gets the share that left this machine, 1 when the server has it and reads it. */
export function sendFile<Answer>(
  method: 'POST' | 'PUT',
  path: string,
  file: File,
  progress: (share: number) => void,
): Upload<Answer> {
  const request = new XMLHttpRequest()
  const done = new Promise<Answer>((resolve, reject) => {
    request.upload.onprogress = (event) => {
      if (event.lengthComputable && event.total > 0) progress(event.loaded / event.total)
    }
    request.upload.onload = () => progress(1)
    request.onerror = () => reject(new ApiError(0, unreachable))
    request.onload = () => {
      if (request.status < 200 || request.status > 299) {
        reject(new ApiError(request.status, errorBody(request.status, request.responseText)))
        return
      }
      try {
        resolve(JSON.parse(request.responseText) as Answer)
      } catch {
        reject(new ApiError(request.status, errorBody(request.status, '')))
      }
    }
  })
  const form = new FormData()
  form.append('file', file, file.name)
  request.open(method, ROOT + path)
  request.setRequestHeader('Idempotency-Key', newKey())
  request.send(form)
  return { done, cancel: () => request.abort() }
}
