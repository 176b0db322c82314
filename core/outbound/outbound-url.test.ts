import { expect, test } from 'vitest';
import { checkOutboundUrl } from './outbound-url.ts';

const check = (text: string, ownHosts: readonly string[] = []) => checkOutboundUrl(text, ownHosts, 'alert_webhook_url');

test.each([
  ['https://hooks.example.com/a?b=c', 'hooks.example.com', 443],
  ['https://hooks.example.com./a', 'hooks.example.com', 443],
  ['https://hooks.example.com:8443/', 'hooks.example.com', 8443],
  ['HTTPS://Hooks.EXAMPLE.com', 'hooks.example.com', 443],
  ['https://bücher.example/', 'xn--bcher-kva.example', 443],
  ['https://8.8.8.8/', '8.8.8.8', 443],
  ['https://[2606:4700:4700::1111]/', '2606:4700:4700::1111', 443],
])('%s may be posted to', (text, host, port) => {
  expect(check(text)).toMatchObject({ host, port, isOwn: false });
});

test.each([
  ['plain http', 'http://hooks.example.com/', 'https://, not http:'],
  ['another scheme', 'ftp://hooks.example.com/', 'https://, not ftp:'],
  ['a file', 'file:///etc/passwd', 'https://, not file:'],
  ['a script', 'javascript:alert(1)', 'https://, not javascript:'],
  ['nothing', '', 'not a web address'],
  ['no scheme', 'hooks.example.com', 'not a web address'],
  ['brackets around a name', 'https://[hooks.example.com]/', 'not a web address'],
  ['a line end', 'https://hooks.exa\nmple.com/', 'not a web address'],
  ['a backslash', 'https://hooks.example.com\\@127.0.0.1/', 'not a web address'],
  ['a NUL', 'https://hooks.example.com/\0', 'not a web address'],
  ['too long', `https://hooks.example.com/${'a'.repeat(2048)}`, 'at most 2048'],
  ['a user', 'https://me@hooks.example.com/', 'a user or a password'],
  ['a password', 'https://:pw@hooks.example.com/', 'a user or a password'],
  ['a name as user', 'https://hooks.example.com@127.0.0.1/', 'a user or a password'],
  ['the port of SSH', 'https://hooks.example.com:22/', 'port 22'],
  ['the port of SMTP', 'https://hooks.example.com:25/', 'port 25'],
  ['the port of http', 'https://hooks.example.com:80/', 'port 80'],
  ['port 0', 'https://hooks.example.com:0/', 'port'],
  ['loopback', 'https://127.0.0.1/', '127.0.0.1 is not an address of the public internet'],
  ['short', 'https://127.1/', '127.0.0.1 is not'],
  ['unspecified', 'https://0.0.0.0/', '0.0.0.0 is not'],
  ['zero', 'https://0/', '0.0.0.0 is not'],
  ['one number', 'https://2130706433/', '127.0.0.1 is not'],
  ['hexadecimal', 'https://0x7f.1/', '127.0.0.1 is not'],
  ['octal', 'https://017700000001/', '127.0.0.1 is not'],
  ['full-width digits', 'https://１２７.0.0.1/', '127.0.0.1 is not'],
  ['ideographic dots', 'https://127。0。0。1/', '127.0.0.1 is not'],
  ['percent-encoded', 'https://%31%32%37.0.0.1/', '127.0.0.1 is not'],
  ['a trailing dot', 'https://127.0.0.1./', '127.0.0.1 is not'],
  ['IPv6 loopback', 'https://[::1]/', '::1 is not'],
  ['IPv6 unspecified', 'https://[::]/', ':: is not'],
  ['mapped', 'https://[::ffff:127.0.0.1]/', '::ffff:7f00:1 is not'],
  ['metadata', 'https://169.254.169.254/latest/meta-data/', '169.254.169.254 is not'],
  ['metadata by IPv6', 'https://[fd00:ec2::254]/', 'fd00:ec2::254 is not'],
  ['private', 'https://10.1.2.3/', '10.1.2.3 is not'],
  ['private', 'https://172.16.0.1/', '172.16.0.1 is not'],
  ['private', 'https://192.168.0.1/', '192.168.0.1 is not'],
  ['shared', 'https://100.64.0.1/', '100.64.0.1 is not'],
  ['link-local', 'https://[fe80::1]/', 'fe80::1 is not'],
  ['localhost', 'https://localhost/', 'localhost is not'],
  ['localhost with a dot', 'https://LOCALHOST./', 'localhost is not'],
  ['circled letters', 'https://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/', 'localhost is not'],
  ['below localhost', 'https://a.localhost/', 'a.localhost is not'],
  ['metadata by name', 'https://metadata.google.internal/', 'metadata.google.internal is not'],
])('%s is refused: %s', (_, text, why) => {
  expect(() => check(text)).toThrow(why);
});

test('a refusal is INVALID_INPUT, names the field, and shows neither path nor password', () => {
  expect(() => check('https://me:hunter2@10.0.0.1/T0/secret')).toThrow(
    expect.objectContaining({
      code: 'INVALID_INPUT',
      message: expect.stringMatching(/^alert_webhook_url: (?!.*(hunter2|secret))/),
    }),
  );
});

test('only hosts of the operator’s own network may use http, private addresses and any port', () => {
  const own = ['127.0.0.1', '*.corp.example.org'];
  expect(check('http://127.0.0.1:99/x', own)).toMatchObject({ port: 99, isOwn: true });
  expect(check('http://127.1/', own)).toMatchObject({ host: '127.0.0.1', port: 80, isOwn: true });
  expect(check('http://a.corp.example.org/', own)).toMatchObject({ isOwn: true });
  expect(() => check('http://user@127.0.0.1/', own)).toThrow('a user');
  for (const text of [
    'http://corp.example.org/',
    'http://xcorp.example.org/',
    'https://127.0.0.2/',
    'ftp://127.0.0.1/',
  ]) {
    expect(() => check(text, own), text).toThrow();
  }
});
