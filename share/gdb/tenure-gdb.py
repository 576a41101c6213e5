# SPDX-FileCopyrightText: 2026 The tenure authors
# SPDX-License-Identifier: BSL-1.0

# How gdb prints tenure::handle and tenure::batch_scope. It reads memory and calls nothing, so core dumps will do.
# Programs carry this script in them (detail/inspect/gdb.hpp, made from this file by tests/gdb/embed.cmake: so no double
# quotes and no backslashes here), and gdb runs it where `add-auto-load-safe-path` trusts the program. Else
# `source` this file.

import gdb
import gdb.printing


class Tenure:
    '''The tables of detail/, as far as they tell what a handle refers to. Constants as in detail/base/word.hpp.'''

    UNIT = 1 << 16
    GENERATION = 25
    GENERATIONS = (1 << 37) - 1
    HEADER = 1 << 24
    CELL = 1 << 63
    EXTENT = (1 << 11) - 1
    RECORD_BITS = 26
    REGION_BITS = 21
    RECORDS_A_CHUNK = 64
    CELLS_A_CHUNK = 1024

    @staticmethod
    def plain(v):
        '''What an atomic holds, of any standard library.'''
        if v.type.strip_typedefs().code != gdb.TYPE_CODE_STRUCT:
            return v
        return v.address.cast(v.type.strip_typedefs().template_argument(0).pointer()).dereference()

    @staticmethod
    def detail(name):
        symbol = gdb.lookup_global_symbol('tenure::detail::' + name)
        return symbol.value() if symbol else gdb.parse_and_eval('tenure::detail::' + name)

    def __init__(self):
        self.tables = self.detail('tables')

    def word_of(self, address):
        return int(self.plain(self.tables['generations'][address // self.UNIT]))

    def region_of(self, address):
        regions = self.tables['regions']
        if not int(regions):
            return None
        region = self.plain(regions[address >> self.REGION_BITS])
        return gdb.Value(int(region) & ~1).cast(region.type)  # the lowest bit is a flag

    def unit_of(self, address):
        region = self.region_of(address)
        return region['units'] + (address - int(region['base'])) // self.UNIT

    def rest_of(self, address):
        region = self.region_of(address)
        return region['rests'] + (address - int(region['base'])) // self.UNIT

    def tracking_of(self, address):
        region = self.region_of(address)
        return region['tracks'] + (address - int(region['base'])) // self.UNIT

    def bit(self, bits, address):
        granule = address % self.UNIT // 8
        return int(self.plain(bits[granule // 32])) >> granule % 32 & 1

    def cell_of(self, word):
        index = word & (1 << self.GENERATION) - 1
        chunk = self.plain(self.detail('cells')['chunks'][index // self.CELLS_A_CHUNK])
        return chunk + index % self.CELLS_A_CHUNK if int(chunk) else None

    def begin_of(self, pointer, word):
        '''Where the bytes of the object begin, its entry included.'''
        if not word & self.EXTENT:
            head = self.plain(self.unit_of(pointer)['head'])
            return int(head['address']) + int(self.plain(head['large_offset']))
        return pointer // 8 * 8 - (word >> 11 & 8191) * 8

    def entry_bytes(self, word):
        return gdb.lookup_type('tenure::detail::entry').sizeof if word & self.HEADER else 0

    def is_alive(self, pointer, word):
        if word == 0:
            return False
        if word & self.CELL:
            cell = self.cell_of(word)
            return cell is not None and int(self.plain(cell['word'])) == word
        if (self.word_of(pointer) ^ word) >> self.GENERATION == 0:
            return True
        large = not word & self.EXTENT
        probe = pointer if large else self.begin_of(pointer, word) + self.entry_bytes(word)
        seen = self.word_of(probe)
        generation = word >> self.GENERATION & self.GENERATIONS
        ago = (seen >> self.GENERATION & self.GENERATIONS) - generation
        if seen == 0 or not 0 <= ago < 2**32 or not self.region_of(probe):
            return False
        alive = ago == 0
        if not large and self.plain(self.unit_of(probe)['tracked']):
            line = probe % self.UNIT // 64
            track = self.tracking_of(probe)
            if not int(self.plain(track['fresh'][line // 64])) >> line % 64 & 1:
                made = int(self.plain(track['pass'][line])) == generation % 2**32
                alive = made and not self.bit(track['dead'], probe)
        if alive and word & self.HEADER:
            entry = gdb.lookup_type('tenure::detail::entry').pointer()
            header = gdb.Value(self.begin_of(pointer, word)).cast(entry)
            alive = not int(self.plain(header['state'])) & 2
        return alive

    def owner_of(self, pointer, word):
        '''The batch_record of the owner of an object that is alive.'''
        if word & self.CELL:
            cell = self.cell_of(word)
            return self.owner_of(int(self.plain(cell['record'])), int(self.plain(cell['record_word'])))
        unit = self.unit_of(pointer)
        if word & self.EXTENT:
            probe = self.begin_of(pointer, word) + self.entry_bytes(word)
            unit = self.unit_of(probe)
            if self.plain(unit['tracked']):
                share = self.plain(self.rest_of(probe)['shares'])
                while int(share):
                    if self.bit(share['objects'], probe):
                        return share['owner']
                    share = share['next_here']
        return self.plain(self.plain(unit['head'])['home'])

    def record_of(self, number):
        index = number & (1 << self.RECORD_BITS) - 1
        chunk = self.plain(self.tables['records'][index // self.RECORDS_A_CHUNK])
        return chunk + index % self.RECORDS_A_CHUNK if int(chunk) else None

    def text_of(self, number):
        return '#%d.%d' % (number & (1 << self.RECORD_BITS) - 1, number >> self.RECORD_BITS)

    def label(self, record):
        words = record['rest'].referenced_value()['name']
        raw = b''.join(int(self.plain(words[i])).to_bytes(8, 'little') for i in range(8))
        name = raw.split(bytes(1))[0].decode('utf-8', 'replace') if self.plain(record['named']) else ''
        number = self.text_of(int(self.plain(record['id'])))
        return repr(name) + ' ' + number if name else number

    @classmethod
    def status(cls, record):
        state = int(cls.plain(record['state']))
        if state & 1 << 25:
            return 'done'
        if state & (1 << 24 | 1 << 28):
            return 'ending'
        return 'retained' if state & 1 << 27 else 'active'

    def usage(self, record):
        '''Live objects and the bytes that they take up.'''
        books = record['rest'].referenced_value()['books']

        def tally(name, what):
            t = books[name]
            return sum(int(self.plain(t[whose + what + '_'])) for whose in ('own_', 'other_'))

        objects = tally('large_made', 'objects')
        size = tally('large_made', 'bytes')
        lane = record['primary'].address
        others = record['lanes']
        while int(lane):
            cursor = int(self.plain(lane['cursor']))
            objects += int(self.plain(lane['objects_before'])) + cursor % (1 << 16)
            size += int(self.plain(lane['bytes_before']))
            size += (cursor >> 16) - int(self.plain(lane['window_begin']))
            lane, others = others, others['next'] if int(others) else others
        for name, sign in (('received', 1), ('given', -1), ('freed', -1)):
            objects += sign * tally(name, 'objects')
            size += sign * tally(name, 'bytes')
        return objects % (1 << 64), size % (1 << 64)


class HandlePrinter:
    '''alive 0x7f... in 'request' #47.3 = {object = ...}, stale 0x7f..., or null'''

    def __init__(self, value):
        if value.type.code in (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF):
            value = value.referenced_value()
        self.value = value
        self.pointer = value['pointer_']
        self.word = int(value['word_'])
        self.is_array = any(f.name == 'size_' for f in value.type.strip_typedefs().fields())
        self.alive = None
        self.owner = None
        try:
            tenure = Tenure()
            self.alive = tenure.is_alive(int(self.pointer), self.word)
            if self.alive:
                self.owner = tenure.label(tenure.owner_of(int(self.pointer), self.word))
        except (gdb.error, RuntimeError):
            pass  # memory that a core dump lacks, or a program that has not started

    def to_string(self):
        text = 'handle<%s> ' % self.value.type.strip_typedefs().template_argument(0)
        if self.word == 0:
            return text + 'null'
        text += {None: 'perhaps alive', True: 'alive', False: 'stale'}[self.alive]
        text += ' 0x%x' % int(self.pointer)
        if self.is_array:
            text += ' of length %d' % int(self.value['size_'])
        return text + (' in batch ' + self.owner if self.owner else '')

    def children(self):
        if not self.alive:
            return
        if self.is_array:
            for i in range(int(self.value['size_'])):
                yield '[%d]' % i, (self.pointer + i).dereference()
        else:
            yield 'object', self.pointer.dereference()


class BatchScopePrinter:
    '''batch 'request' #47.3, active, 3 objects, 96 bytes in use'''

    def __init__(self, value):
        self.lane = value['lane_']
        self.number = int(value['id_'])

    def to_string(self):
        try:
            tenure = Tenure()
            record, text = self.lane['batch'], 'batch '
            if int(self.lane) == int(tenure.detail('over_records').address):
                record, text = tenure.record_of(self.number), 'detached batch '
            if int(tenure.plain(record['id'])) != self.number:
                return text + '%s, done' % tenure.text_of(self.number)
            objects, size = tenure.usage(record)
            return text + '%s, %s, %d objects, %d bytes in use' % (
                tenure.label(record), tenure.status(record), objects, size)
        except (gdb.error, RuntimeError) as why:
            return 'batch %#x (%s)' % (self.number, why)


def tenure_printers():
    printers = gdb.printing.RegexpCollectionPrettyPrinter('tenure')
    printers.add_printer('handle', '^tenure::handle<.*>$', HandlePrinter)
    printers.add_printer('batch_scope', '^tenure::batch_scope$', BatchScopePrinter)
    return printers


gdb.printing.register_pretty_printer(gdb.current_objfile(), tenure_printers(), replace=True)
