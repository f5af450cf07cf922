import { describe, expect, it } from 'vitest'
import { ApiError } from './api.ts'
import { namesIn, problemAt, problemElsewhere } from './fields.ts'
import { required } from './resources.ts'

const refused = (param: string | null) =>
  new ApiError(400, { message: 'No.', code: 'invalid_request', param, hint: 'Do this.' })

describe('where a refusal is said', () => {
  it('is the field that it names, also by its place in a list', () => {
    expect(problemAt(refused('name'), 'name')).toEqual({ message: 'No.', hint: 'Do this.' })
    expect(problemAt(refused('file_ids.3'), 'file_ids')).not.toBeNull()
    expect(problemAt(refused('name'), 'prompt')).toBeNull()
    expect(problemElsewhere(refused('name'), ['name'])).toBeNull()
  })

  it('is over the form where no field of it is named', () => {
    expect(problemElsewhere(refused(null), ['name'])?.message).toBe('No.')
    expect(problemElsewhere(refused('owner'), ['name'])?.message).toBe('No.')
    expect(problemElsewhere(new Error('lost'), ['name'])?.message).toContain('went wrong')
    expect(problemElsewhere(null, ['name'])).toBeNull()
  })
})

it('reads names with commas and spaces', () => {
  expect(namesIn(' search,read_file  search ,')).toEqual(['search', 'read_file'])
  expect(namesIn(' , ')).toEqual([])
})

it('refuses an empty field at that field, before the server is asked', () => {
  const value = { name: 'Reviewer', prompt: ' ' }
  expect(required(value, 'name', 'No name.', 'Give one.')).toBe(value)
  let refusal: unknown
  try {
    required(value, 'prompt', 'No prompt.', 'Write one.')
  } catch (error) {
    refusal = error
  }
  expect(problemAt(refusal, 'prompt')).toEqual({ message: 'No prompt.', hint: 'Write one.' })
})
