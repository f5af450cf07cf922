// The official library of Anthropic for JavaScript: models, files, three turns with a tool, and an error in its words.
import Anthropic, { toFile } from "@anthropic-ai/sdk";

const client = new Anthropic();
const models = [];
for await (const model of client.models.list({ limit: 1 })) models.push(model.id);
console.log("models", models.length > 0, (await client.models.retrieve(models[0])).id === models[0]);
const file = await client.beta.files.upload({ file: await toFile(Buffer.from("The lamp is green."), "lamp.txt", { type: "text/plain" }) });
console.log("file", file.filename, file.size_bytes, await (await client.beta.files.download(file.id)).text());
console.log("deleted", (await client.beta.files.delete(file.id)).type);
try {
  await client.beta.files.retrieveMetadata(file.id);
} catch (error) {
  console.log("error", error.status, error.error.error.type);
}
const system = "The keeper lights the lamp at dusk and notes the weather, the ships and the oil that is left. ".repeat(80);
const tools = [{ name: "look", description: "Tells what there is to see at a place.", input_schema: { type: "object", properties: { place: { type: "string" } } } }];
const messages = [];
for (const question of ["How is the lamp in the tower?", "And the ships?", "Thank you"]) {
  messages.push({ role: "user", content: question });
  for (;;) {
    const answer = await client.messages.stream({ model: "claude-opus-5-5", max_tokens: 500, system, tools, messages }).finalMessage();
    messages.push({ role: "assistant", content: answer.content });
    const calls = answer.content.filter((block) => block.type === "tool_use");
    if (!calls.length) {
      console.log(answer.content.map((block) => block.text ?? "").join(""));
      break;
    }
    messages.push({ role: "user", content: calls.map((call) => ({ type: "tool_result", tool_use_id: call.id, content: `At ${call.input.place} the lamp is green.` })) });
  }
}
