// The AI SDK: three turns with a tool over Messages and over Responses. The last answer of each is streamed.
import { createAnthropic } from "@ai-sdk/anthropic";
import { openai } from "@ai-sdk/openai";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const anthropic = createAnthropic({ baseURL: process.env.OPENAI_BASE_URL });
const system = "The keeper lights the lamp at dusk and notes the weather, the ships and the oil that is left. ".repeat(80);
const look = tool({
  description: "Tells what there is to see at a place.",
  inputSchema: z.object({ place: z.string() }),
  execute: async ({ place }) => `At ${place} the lamp is green.`,
});

for (const model of [anthropic("claude-opus-5-5"), openai("gpt-6.1-terra")]) {
  const providerOptions = { openai: { store: false } };
  const messages = [];
  for (const question of ["How is the lamp in the tower?", "And the ships?", "Thank you"]) {
    messages.push({ role: "user", content: question });
    const asked = { model, system, messages, tools: { look }, stopWhen: stepCountIs(3), providerOptions };
    const result = question === "Thank you" ? streamText(asked) : await generateText(asked);
    console.log(await result.text);
    messages.push(...(await result.response).messages);
  }
}
