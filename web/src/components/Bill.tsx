import { dollars, exact, percent, tokens } from '../format.ts'
import type { UsageBody } from '../objects.ts'

interface Props {
  usage: UsageBody | null | undefined
  cost: number | null
}

const WHY = '. ≈ is an estimate: the provider did not tell all that it billed'

/** What an answer was billed; ≈ stands before a figure that no provider told. */
export function Bill({ usage, cost }: Props) {
  const guessed = usage?.input_estimated ? '≈ ' : ''
  const about = usage?.estimated ? '≈ ' : ''
  return (
    <>
      {usage && usage.input > 0 && (
        <span
          title={`${exact(usage.input)} in, of which ${exact(usage.cache_read)} from the cache; ${exact(usage.output)} out${about && WHY}`}
          data-testid="answer-usage"
        >
          {`${guessed}${tokens(usage.input)} in, ${percent(usage.cache_read / usage.input)} cached · ${about}${tokens(usage.output)} out`}
        </span>
      )}
      {cost !== null && cost > 0 && <span>{`${about}${dollars(cost)}`}</span>}
    </>
  )
}
