import { describe, expect, it } from 'vitest'
import { byDate, bytes, dollars, duration, percent, tokens } from './format.ts'

describe('numbers', () => {
  it('counts tokens shortly', () => {
    expect([0, 812, 999, 1000, 4100, 9949, 9950, 41_238, 200_000, 999_499, 999_500, 1_000_000, 1_250_000].map(tokens)).toEqual([
      '0', '812', '999', '1k', '4.1k', '9.9k', '10k', '41k', '200k', '999k', '1M', '1M', '1.3M',
    ])
  })

  it('never rounds a share to nothing or to all', () => {
    expect([0, 0.001, 0.5, 0.924, 0.999, 1].map(percent)).toEqual(['0 %', '< 1 %', '50 %', '92 %', '> 99 %', '100 %'])
  })

  it('writes costs with the digits that say something', () => {
    expect([0, 0.0000001, 0.00012, 0.0123, 1.5].map(dollars)).toEqual(['$0', '< $0.000001', '$0.00012', '$0.0123', '$1.50'])
  })

  it('writes durations', () => {
    expect([0, 0.0401, 0.9999, 2.44, 59.96, 185].map(duration)).toEqual(['0 ms', '40 ms', '1 s', '2.4 s', '1 min 0 s', '3 min 5 s'])
  })

  it('writes sizes', () => {
    expect([12, 41_000, 2_400_000, 50_000_000].map(bytes)).toEqual(['12 B', '41 kB', '2.4 MB', '50 MB'])
  })
})

it('groups chats by day, week and month, in the order they came', () => {
  const now = new Date(2026, 10, 27, 9, 30)
  const at = (...when: [number, number, number, number?]) => ({ updated_at: new Date(...when).toISOString() })
  const things = [at(2026, 10, 27, 1), at(2026, 10, 26, 23), at(2026, 10, 20), at(2026, 10, 19), at(2026, 9, 1), at(2025, 9, 1)]
  expect(byDate(things, now).map(({ name, those }) => [name, those.length])).toEqual([
    ['Today', 1], ['Yesterday', 1], ['Previous 7 days', 1], ['Previous 30 days', 1], ['October 2026', 1], ['October 2025', 1],
  ])
})
