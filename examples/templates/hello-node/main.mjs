// Reads the input from stdin and writes the output to stdout.
import { json } from 'node:stream/consumers';

function greet(name) {
  return { greeting: `Hello, ${name}!` };
}

const { name } = await json(process.stdin);
console.error('greets one person'); // stderr is the log of the run
console.log(JSON.stringify(greet(name)));
