import { describe, expect, test } from 'vitest';
import { checkSkillFiles, type GivenSkillFile, parseSkill, shortDescription } from './skill.ts';

describe('parseSkill', () => {
  test.each([
    ['---\nname: tone\ndescription: How we write.\n---\n\nBe brief.\n'],
    ['\ufeff---\r\nname: tone\r\ndescription: How we write.\r\n---\r\nBe brief.'],
    ['---\nname: tone\ndescription: >-\n  How we\n  write.\nlicense: MIT\nmetadata:\n  version: 1.0\n---\nBe brief.'],
    ['--- \nname: "tone"\ndescription: "How we write."\n---  \nBe brief.\n'],
  ])('reads %j', (text) => {
    expect(parseSkill(text)).toEqual({
      skill: { name: 'tone', description: 'How we write.', body: 'Be brief.' },
      errors: [],
    });
  });

  test('leaves later lines of dashes in the body', () => {
    expect(parseSkill('---\nname: a\ndescription: b\n---\nx\n---\ny').skill?.body).toBe('x\n---\ny');
  });

  const bomb = `a: &a [x,x,x,x,x,x,x,x,x,x]\n${'bcdefghij'
    .split('')
    .map((name, index) => `${name}: &${name} [${Array(10).fill(`*${'abcdefghij'[index]}`)}]`)
    .join('\n')}`;
  test.each<[string, string, string]>([
    ['no front matter', 'Be brief.', 'must begin with front matter'],
    ['an open end', '---\nname: tone', 'must begin with front matter'],
    ['dashes on a text line', '--- name: tone\n---\nx', 'must begin with front matter'],
    ['no YAML', '---\nname: [\n---\nx', 'has front matter that is not YAML'],
    ['a YAML list', '---\n- name\n---\nx', 'must have front matter with the members name and description'],
    ['a YAML bomb', `---\n${bomb}\n---\nx`, 'not YAML'],
    [
      'no name',
      '---\ndescription: x\n---\nx',
      'must be lower-case letters, digits and single hyphens, at most 64, but is missing',
    ],
    ['a bad name', '---\nname: My Skill\ndescription: x\n---\nx', 'but is "My Skill"'],
    ['a long name', `---\nname: ${'a'.repeat(65)}\ndescription: x\n---\nx`, 'at most 64'],
    ['a number for a name', '---\nname: 7\ndescription: x\n---\nx', 'but is 7'],
    ['no description', '---\nname: a\n---\nx', 'must be text, but is missing'],
    ['no body', '---\nname: a\ndescription: x\n---\n', 'must have instructions'],
  ])('refuses %s', (_, text, message) => {
    const { skill, errors } = parseSkill(text);
    expect(skill).toBeUndefined();
    expect(errors.map((error) => error.message).join('\n')).toContain(message);
  });
});

describe('shortDescription', () => {
  const words = 'Use it for reports. '.repeat(100).trim();

  test('leaves up to 1,024 characters as they are', () => {
    for (const text of ['x', ' padded ', 'x'.repeat(1024)]) {
      expect(shortDescription(text)).toEqual({ description: text, warnings: [] });
    }
  });

  test('cuts a longer one after a word, and says so', () => {
    const { description, warnings } = shortDescription(words);
    expect(description).toMatch(/^Use it for reports\..*(?:Use|it|for|reports\.)…$/);
    expect(description.length).toBeGreaterThan(1000);
    expect(description.length).toBeLessThanOrEqual(1024);
    expect(words.startsWith(description.slice(0, -1))).toBe(true);
    expect(warnings).toEqual([
      `The description was cut to ${description.length} of its 1999 characters: that of a skill may have 1024.`,
    ]);
  });

  test.each([
    ['one long word', 'x'.repeat(5000), 'x'.repeat(1023)],
    ['pairs of surrogates', `x${'😀'.repeat(1000)}`, `x${'😀'.repeat(511)}`],
    ['a space at the end of the room', `${'x'.repeat(1023)} y`, 'x'.repeat(1023)],
  ])('cuts %s', (_, text, start) => {
    expect(shortDescription(text).description).toBe(`${start}…`);
  });

  test('of blanks is empty', () => {
    expect(shortDescription(' '.repeat(3000))).toEqual({ description: '', warnings: [] });
  });
});

describe('checkSkillFiles', () => {
  const file = (path: string, content = 'x'): GivenSkillFile => ({ path, content });
  const binary = (path: string, content: string): GivenSkillFile => ({ path, content, encoding: 'base64' });
  const many = (count: number) => Array.from({ length: count }, (_, index) => file(`${index}.md`));

  test.each<[string, GivenSkillFile[]]>([
    ['none', []],
    ['200', many(200)],
    ['8,000,000 bytes', [file('a', 'x'.repeat(4_000_000)), file('b/c', 'ü'.repeat(2_000_000))]],
    ['8,000,000 bytes as base64', [binary('a', Buffer.alloc(8_000_000).toString('base64'))]],
    ['an empty file', [file('a', ''), binary('b', '')]],
  ])('accepts %s', (_, files) => {
    expect(checkSkillFiles(files, 'f').errors).toEqual([]);
  });

  test.each([0, 1, 2, 3, 4])('counts the bytes of %d bytes in base64', (size) => {
    const [checked] = checkSkillFiles([binary('a', Buffer.alloc(size, 255).toString('base64'))], 'f').files;
    expect(checked).toMatchObject({ size, encoding: 'base64' });
  });

  test.each<[string, GivenSkillFile[], string, string]>([
    ['201', many(201), 'f', 'must be at most 200, but are 201'],
    [
      '8,000,001 bytes',
      [file('a', 'x'.repeat(8_000_001))],
      'f',
      'must have at most 8000000 bytes in total, but have 8000001',
    ],
    [
      '8,000,001 bytes as base64',
      [binary('a', Buffer.alloc(8_000_001).toString('base64'))],
      'f',
      'must have at most 8000000 bytes in total, but have 8000001',
    ],
    ['..', [file('a/../b')], 'f[0].path', 'has "..", "." or an empty name in it'],
    ['an absolute path', [file('a'), file('/b')], 'f[1].path', 'is absolute: it must be relative to the root'],
    ['a backslash', [file('a\\b')], 'f[0].path', 'has a backslash in it: separate folders by "/"'],
    ['a path twice', [file('a'), binary('a', '')], 'f[1].path', 'is "a" a second time'],
    [
      'a file that is a folder, too',
      [file('a'), file('a/b')],
      'f[0].path',
      'is "a", which is a folder of another file',
    ],
    ...['x\0', 'x\ud800'].map((content): [string, GivenSkillFile[], string, string] => [
      `${JSON.stringify(content)} as text`,
      [file('a', content)],
      'f[0].content',
      'must be text: send other content as base64, with "encoding": "base64"',
    ]),
    ...['A', 'AAA', 'AA=A', 'A===', 'AAAA\n', 'AA A', '_-_-', 'AAAÄ', '===='].map(
      (content): [string, GivenSkillFile[], string, string] => [
        `${JSON.stringify(content)} as base64`,
        [binary('a', content)],
        'f[0].content',
        'must be base64, with padding and without line ends',
      ],
    ),
  ])('refuses %s', (_, files, field, message) => {
    expect(checkSkillFiles(files, 'f').errors).toEqual([{ field, message }]);
  });
});
