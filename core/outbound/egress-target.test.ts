import { describe, expect, test } from 'vitest';
import { closedTarget, egressTargetProblem, readEgressTarget } from './egress-target.ts';

describe('a target', () => {
  test.each([
    'db.example.com:5432',
    'DB.Example.COM:1',
    'redis:6379',
    'cluster0-shard-00-00.abcde.mongodb.net:27017',
    '_srv.example.com:65535',
    'smtp.example.com:587',
    'xn--mller-kva.example:5432',
    'intranet.example.com:443',
    '10.example.com:5432',
  ])('may be %s', (target) => expect(egressTargetProblem(target)).toBeUndefined());

  test.each([
    ['db.example.com', 'a port'],
    ['db.example.com:', 'such as'],
    ['db.example.com:0', 'from 1 to 65535'],
    ['db.example.com:65536', 'from 1 to 65535'],
    ['db.example.com:99999999', 'such as'],
    ['db.example.com:-1', 'such as'],
    ['db.example.com:5432/x', 'such as'],
    ['mail.example.com:25', 'port 25'],
    ['postgres://db.example.com:5432', 'without a scheme'],
    ['*.example.com:5432', 'wildcard'],
    ['*:5432', 'wildcard'],
    ['10.0.0.5:5432', 'a name instead of an address'],
    ['93.184.216.34:5432', 'a name instead of an address'],
    ['[::1]:5432', 'a name instead of an address'],
    ['[::ffff:10.0.0.5]:5432', 'a name instead of an address'],
    ['::1:5432', 'a name instead of an address'],
    ['2130706433:5432', 'a name instead of an address'],
    ['0x7f.1:5432', 'a name instead of an address'],
    ['0x7f000001:5432', 'a name instead of an address'],
    ['127.1:5432', 'a name instead of an address'],
    ['localhost:5432', 'the sandbox itself'],
    ['LOCALHOST:5432', 'the sandbox itself'],
    ['db.localhost:5432', 'the sandbox itself'],
    ['sandbox:5432', 'the sandbox itself'],
    ['db.example.com.:5432', 'such as'],
    ['db example.com:5432', 'such as'],
    ['db.example.com\n127.0.0.1 pypi.org:5432', 'such as'],
    ['db=x,y.example.com:5432', 'such as'],
    ['user@db.example.com:5432', 'such as'],
    ['-db.example.com:5432', 'such as'],
    ['müller.example:5432', 'such as'],
    [`${'a'.repeat(64)}.example.com:5432`, 'such as'],
    [`${'a.'.repeat(130)}com:5432`, 'such as'],
    ['', 'such as'],
    [':5432', 'such as'],
  ])('must not be %o', (target, problem) => expect(egressTargetProblem(target)).toContain(problem));

  test('is read in lower case', () => {
    expect(readEgressTarget('DB.Example.com:5432')).toEqual({ host: 'db.example.com', port: 5432 });
  });
});

test('the operator decides which hosts and ports are open', () => {
  const all = [{ from: 1, to: 65_535 }];
  const database = [{ from: 5432, to: 5432 }];
  const targets = ['db.example.com:5432', 'cache.example.com:6379'];
  expect(closedTarget({ sandboxEgress: 'open', egressPorts: all }, targets)).toBeUndefined();
  expect(closedTarget({ sandboxEgress: ['*.example.com'], egressPorts: all }, targets)).toBeUndefined();
  expect(closedTarget({ sandboxEgress: 'none', egressPorts: all }, [])).toBeUndefined();
  expect(closedTarget({ sandboxEgress: 'none', egressPorts: all }, targets)).toContain('db.example.com');
  expect(closedTarget({ sandboxEgress: ['db.example.com'], egressPorts: all }, targets)).toContain(
    'connect to cache.example.com (PLATFORM_SANDBOX_EGRESS)',
  );
  expect(closedTarget({ sandboxEgress: 'open', egressPorts: database }, targets)).toContain(
    'cache.example.com:6379, and the operator opens only the ports 5432 (PLATFORM_EGRESS_PORTS)',
  );
  expect(closedTarget({ sandboxEgress: 'open', egressPorts: [] }, targets)).toContain('no ports besides 80 and 443');
});
