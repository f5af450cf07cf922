// The official library of OpenAI for JavaScript: files, a conversation, a background response that is followed again.
import OpenAI, { toFile } from "openai";

const client = new OpenAI();
const file = await client.files.create({ file: await toFile(Buffer.from("The lamp is green."), "lamp.txt"), purpose: "user_data" });
console.log("content", await (await client.files.content(file.id)).text());

const conversation = await client.conversations.create({ items: [{ role: "user", content: "I keep a light." }], metadata: { place: "tower" } });
const first = await client.responses.create({
  conversation: conversation.id,
  input: [{ role: "user", content: [{ type: "input_file", file_id: file.id }, { type: "input_text", text: "How is the lamp?" }] }],
});
console.log("same", JSON.stringify(await client.responses.retrieve(first.id)) === JSON.stringify(first));

const seen = [];
let response;
for await (const event of await client.responses.create({ conversation: conversation.id, input: "And the ships?", background: true, stream: true })) {
  response ??= event.response.id;
  seen.push(event.sequence_number);
  if (seen.length === 4) break;
}
let last;
for await (const event of await client.responses.retrieve(response, { stream: true, starting_after: seen.at(-1) })) {
  seen.push(event.sequence_number);
  last = event;
}
console.log("events", seen.every((number, index) => number === index), last.type);
const polled = await client.responses.retrieve(response);
console.log("end", JSON.stringify(polled) === JSON.stringify({ ...last.response, output_text: polled.output_text }));
const items = [];
for await (const item of client.conversations.items.list(conversation.id, { limit: 2, order: "asc" })) items.push(item);
console.log("items", items.map((item) => item.role).join(" "));
try {
  await client.responses.create({ input: "Go on", previous_response_id: "resp_01m883md6d2n6apzd4rsj0efhg" });
} catch (error) {
  console.log("error", error.status, error.code);
}
console.log("deleted", (await client.conversations.delete(conversation.id)).deleted);
