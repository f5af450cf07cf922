/** Where the message of a refused form belongs: at the field that `param` names, or over the form. */

import { ApiError, explain } from './api.ts'

export interface Problem {
  message: string
  hint: string | null
}

/** The problem with this field; `file_ids.3` is one with `file_ids`. */
export function problemAt(error: unknown, field: string): Problem | null {
  return fieldOf(error) === field ? explain(error) : null
}

/** The problem with no field of the form. */
export function problemElsewhere(error: unknown, fields: readonly string[]): Problem | null {
  if (error === null || error === undefined) return null
  const field = fieldOf(error)
  return field !== null && fields.includes(field) ? null : explain(error)
}

function fieldOf(error: unknown): string | null {
  return error instanceof ApiError && error.param !== null ? (error.param.split('.')[0] ?? null) : null
}

/** `a, b` as names; double and empty ones are left out. */
export function namesIn(text: string): string[] {
  return [...new Set(text.split(/[\s,]+/).filter(Boolean))]
}
