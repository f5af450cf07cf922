// A conversation with Lamella through AG-UI's own client: node agui.mjs "What is a tide?" "And a slot?"
import { HttpAgent } from "@ag-ui/client";

const agent = new HttpAgent({
  url: `${process.env.LAMELLA_URL ?? "http://127.0.0.1:8377"}/api/v1/agui`,
  headers: { authorization: `Bearer ${process.env.LAMELLA_KEY ?? "any"}` },
});

for (const question of process.argv.slice(2)) {
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content: question });
  await agent.runAgent(
    { context: [{ description: "The time of the user", value: new Date().toString() }] },
    {
      onTextMessageContentEvent: ({ event }) => void process.stdout.write(event.delta),
      onToolCallStartEvent: ({ event }) => console.log(`[calls ${event.toolCallName}]`),
      onRunFinishedEvent: ({ event }) => console.log("\n", event.usage),
    },
  );
}
