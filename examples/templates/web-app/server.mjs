// A web server. The platform sets PORT, and restarts the program if it ends.
import { createServer } from 'node:http';

const { PORT = '3000', TITLE = 'Hello' } = process.env;
const escapeHtml = (text) => text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);

const page = (name) => `<!doctype html>
<html lang="en">
<meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${escapeHtml(TITLE)}</title>
<h1>Hello, ${escapeHtml(name)}!</h1>
<form><label>Your name <input name="name" required></label> <button>Greet me</button></form>
</html>
`;

const server = createServer((request, response) => {
  const { searchParams } = new URL(request.url, 'http://localhost');
  response.setHeader('content-type', 'text/html; charset=utf-8');
  response.end(page(searchParams.get('name') ?? 'world'));
});
server.listen(Number(PORT), () => console.log(`INFO listens on port ${server.address().port}`));
