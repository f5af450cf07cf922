import { renderToStaticMarkup } from 'react-dom/server'
import { describe, expect, it } from 'vitest'
import { Bill } from './Bill.tsx'

const usage = { input: 3214, cache_read: 2500, cache_write: 0, fresh: 714, output: 620, reasoning: 0, estimated: false, input_estimated: false, cache_write_1h: 0 }
const said = (of: Partial<typeof usage>) =>
  renderToStaticMarkup(<Bill usage={{ ...usage, ...of }} cost={0.0187} />).replace(/<[^>]+>/g, ' ').replace(/\s+/g, ' ').trim()

describe('the bill of an answer', () => {
  it('has no mark where the provider told all of it', () => {
    expect(said({})).toBe('3.2k in, 78 % cached · 620 out $0.0187')
  })

  it('marks output and cost of a stopped answer, whose input was billed', () => {
    expect(said({ estimated: true })).toBe('3.2k in, 78 % cached · ≈ 620 out ≈ $0.0187')
  })

  it('marks all of it where the provider told nothing', () => {
    expect(said({ estimated: true, input_estimated: true })).toBe('≈ 3.2k in, 78 % cached · ≈ 620 out ≈ $0.0187')
  })
})
